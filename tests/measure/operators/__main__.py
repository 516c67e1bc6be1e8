"""Measures the operators of a training step on one GPU, by shape; run it by hand, from the repository.

    PYTHONPATH=.:tests python -m measure.operators --gpu h200-sxm --output profiles/operators/h200-sxm.json

The file is what the time model reads its rates from. Takes some three minutes, and needs transformers for the
host's time of a layer. ``--dry-run`` computes tiny shapes on the CPU, whose rates mean nothing.
"""

import argparse
import json
import time
import traceback
from dataclasses import replace
from datetime import date
from importlib import metadata
from pathlib import Path

import torch
from measure.operators.dispatch import dispatched
from measure.operators.elementwise import elementwise
from measure.operators.experts import grouped, host_seconds_of_experts, routing
from measure.operators.layers import host_seconds_of_a_layer, host_seconds_of_an_optimizer
from measure.operators.shapes import FULL, TINY
from measure.operators.single import attention, moved, optimizer, products
from measure.readings import hardware

from tuner.gpus import find_gpu


def main() -> None:
    """Runs every part and writes after each, so that what ran is kept when the time is over."""
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
    parts = {
        "host": host_seconds_of_a_layer,
        "host_experts": host_seconds_of_experts,
        "host_optimizer": host_seconds_of_an_optimizer,
        "dispatched": dispatched,
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
    for name, measure in parts.items():
        begin = time.monotonic()
        try:
            document[name] = measure(shapes)
        except Exception:  # one part's failure takes none of the others along
            traceback.print_exc()
        arguments.output.write_text(json.dumps(document, indent=1) + "\n")
        print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
