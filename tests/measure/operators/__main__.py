"""Measures the operators of a training step on one GPU, by shape; run it by hand, from the repository.

    PYTHONPATH=.:tests python -m measure.operators --gpu h200-sxm --output profiles/operators/h200-sxm.json
    PYTHONPATH=.:tests torchrun --nproc-per-node 2 -m measure.operators --gpu h200-sxm --output FILE
        --parts host host_optimizer host_launch

The file is what the time model reads its rates from. Takes some three minutes, and needs transformers for the
host's time of a layer. What the host needs is more where several ranks share the layers, and is measured with
them as well. ``--dry-run`` computes tiny shapes on the CPU, whose rates mean nothing.
"""

import argparse
import json
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from importlib import metadata
from pathlib import Path

import torch
import torch.distributed as dist
from measure.operators.decoding import cache_reads, weight_reads
from measure.operators.dispatch import dispatched, listed
from measure.operators.elementwise import elementwise
from measure.operators.experts import grouped, host_seconds_of_experts, routing
from measure.operators.group import joined
from measure.operators.layers import (
    host_seconds_of_a_launch,
    host_seconds_of_a_layer,
    host_seconds_of_an_optimizer,
)
from measure.operators.shapes import FULL, TINY, Shapes
from measure.operators.single import attention, moved, optimizer, products
from measure.readings import hardware

from tuner.gpus import find_gpu


def main() -> None:
    """Runs every part and writes after each row, so that what ran is kept when the time is over."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", required=True, help="the profile that the table belongs to")
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--dry-run", action="store_true", help="run without a GPU")
    parser.add_argument("--parts", nargs="*", default=None, help="those of the file that are measured; all")
    arguments = parser.parse_args()
    card = find_gpu(arguments.gpu)
    peak = card.dense_bf16_flop_per_s
    shapes = replace(TINY if arguments.dry_run else FULL, peak_flop_per_s=peak)
    document: dict[str, object] = {
        "gpu": arguments.gpu,
        "dense_bf16_flop_per_s": peak,
        "memory_bytes_per_s": card.memory_bytes_per_s,
        "source": "python -m measure.operators",
        "hardware": hardware(),
        "versions": {"torch": torch.__version__, "transformers": metadata.version("transformers")},
        "date": date.today().isoformat(),
    }
    parts: dict[str, Callable[[Shapes], object]] = {
        "host": host_seconds_of_a_layer,
        "host_experts": host_seconds_of_experts,
        "host_optimizer": host_seconds_of_an_optimizer,
        "host_launch": host_seconds_of_a_launch,
        "dispatched": dispatched,
        "listed": listed,
        "cache_reads": cache_reads,
        "weight_reads": weight_reads,
        "products": products,
        "attention": attention,
        "moved": moved,
        "optimizer": optimizer,
        "grouped": grouped,
        "routing": routing,
        "elementwise": elementwise,
    }
    if arguments.parts is not None:
        parts = {name: parts[name] for name in arguments.parts}
    with joined(shapes.device) as ranks:
        document["ranks"] = ranks
        for name, measure in parts.items():
            begin = time.monotonic()
            try:
                for document[name] in _growing(measure(shapes)):
                    _write(arguments.output, document)
            except Exception:  # one part's failure takes none of the others along
                traceback.print_exc()
                if ranks > 1:
                    raise  # the other ranks wait
            print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)


def _growing(figures: object) -> Iterator[object]:
    """A part's figures as they become known: rows one by one, others at once."""
    if not isinstance(figures, Iterator):
        yield figures
        return
    rows: list[object] = []
    for row in figures:
        rows.append(row)
        yield rows


def _write(path: Path, document: dict[str, object]) -> None:
    if dist.get_rank() == 0:
        path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
