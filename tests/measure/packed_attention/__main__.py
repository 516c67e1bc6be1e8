"""What layers take over one packed row by their attention: seconds, bytes and kernels; run it by hand.

    PYTHONPATH=.:tests python -m measure.packed_attention --output FILE [--attention flash sdpa]
        [--tokens N ...] [--layers N ...] [--no-cudnn] [--sliding-window N] [--minutes M] [--dry-run]

A row has eight sequences, whose positions begin anew, and no mask, as a trainer without padding hands it to
transformers. The layers are those of transformers' Qwen2 in the installed release, with random weights in
bfloat16 and nothing recomputed; ``flash`` is PyTorch's own copy of flash attention within each sequence, and
wants transformers 5. A file that is there already gets further rows, as of another release of transformers.
``--dry-run`` takes small layers, without a GPU if there is none.
"""

import argparse
import json
import platform
import time
import warnings
from collections.abc import Iterator
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import torch
import transformers
from measure.packed_attention.layers import SIZES, TINY, Row, Sizes, build
from measure.packed_attention.reading import read
from measure.readings import hardware

NOTES = (
    "one row of `tokens` in eight sequences of one length, position_ids of each from 0, no attention_mask, "
    "use_cache=False; Qwen2Model of transformers without embedding and head, bfloat16, weights trained.",
    "forward_s, backward_s: medians of five, after two that do not count. One layer is half the difference "
    "of three layers and one; what is made once for all layers, as a mask, is in both.",
    "kept_bytes: allocated behind the forward pass, peak_bytes: at most in both passes, each beyond what was "
    "there before; gradients of weights were there before.",
    "kernels: of one forward and one backward pass; seconds by kind, and those of attention by name with "
    "their number and seconds.",
    "cudnn: whether PyTorch may choose cuDNN's attention, which this one prefers on such a card and others "
    "do not. sliding_window: in the configuration, with use_sliding_window=False.",
    "sees_others: whether the last sequence's states change when the first one does.",
    "attention flash: PyTorch's own copy of flash attention 2 with the bounds of the sequences, as the "
    "engine of tuner validate calls it; sdpa: attn_implementation=sdpa.",
)


def main() -> None:
    """Reads every row and writes after each, so that what ran is kept when the time is over."""
    arguments = _arguments()
    warnings.simplefilter("ignore")
    torch.backends.cuda.enable_cudnn_sdp(not arguments.no_cudnn)
    before = json.loads(arguments.output.read_text()) if arguments.output.exists() else {"rows": []}
    document: dict[str, Any] = {
        "what": "Seconds, bytes and kernels of decoder layers over one packed row, by their attention.",
        "hardware": hardware(),
        "software": {"torch": torch.__version__, "python": platform.python_version()},
        "notes": NOTES,
        "date": date.today().isoformat(),
        "rows": before["rows"],
    }
    latest = time.monotonic() + 60 * arguments.minutes
    for row in _planned(arguments):
        if time.monotonic() > latest:
            print(f"no time for {row}", flush=True)
            continue
        document["rows"].append({"transformers": transformers.__version__, **_outcome(row)})
        arguments.output.write_text(json.dumps(document, indent=1) + "\n")


def _planned(arguments: argparse.Namespace) -> Iterator[Row]:
    """All rows, small ones first."""
    sizes: tuple[Sizes, ...] = (TINY,) if arguments.dry_run else SIZES
    for tokens, size, layers in product(sorted(arguments.tokens), sizes, arguments.layers):
        for attention in arguments.attention:
            yield Row(
                attention=attention,
                tokens=tokens,
                layers=layers,
                sizes=size,
                cudnn=not arguments.no_cudnn,
                sliding_window=arguments.sliding_window,
            )


def _outcome(row: Row) -> dict[str, Any]:
    """What was read of a row, or why it was not."""
    try:
        reading = read(row, build(row))
    except torch.OutOfMemoryError as error:
        reading = {"error": str(error).splitlines()[0]}
    told = row.told()
    print(told, {key: value for key, value in reading.items() if key != "kernels"}, flush=True)
    return {**told, **reading}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--attention", nargs="+", default=["flash", "sdpa"], metavar="NAME")
    parser.add_argument("--tokens", nargs="+", type=int, default=[4096, 8192, 16384, 32768])
    parser.add_argument("--layers", nargs="+", type=int, default=[1, 3])
    parser.add_argument("--no-cudnn", action="store_true", help="PyTorch chooses among its other kernels")
    parser.add_argument("--sliding-window", type=int, default=131072, help="in the configuration, unused")
    parser.add_argument("--minutes", type=float, default=8.0, help="after which no row is begun")
    parser.add_argument("--dry-run", action="store_true", help="small layers, for a processor")
    return parser.parse_args()


if __name__ == "__main__":
    main()
