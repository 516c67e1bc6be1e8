"""GPU milliseconds of a decoding step and of its parts, replayed from CUDA graphs; run it by hand.

    PYTHONPATH=.:tests python -m measure.decode_step --output FILE [--models NAME ...] [--minutes M]
        [--dry-run]

Needs vLLM for its attention over a paged cache. The host has no part in these times: beside what an engine
takes for the same steps they tell what the host adds. The file is written again after each row.
"""

import argparse
import json
import time
from collections.abc import Callable
from datetime import date
from importlib import metadata
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import torch
from measure.decode_step.layers import Sizes, Step
from measure.readings import hardware

from tuner.models.library import find_config

MODELS = ("Qwen/Qwen3-4B", "Qwen/Qwen2.5-1.5B-Instruct")
#: Sequences and mean tokens that each sees: a rollout's, and few sequences with much context.
POINTS = ((8, 750), (50, 750), (124, 750), (190, 750), (256, 750), (512, 750), (64, 4096), (16, 16384))
_REPLAYS = 20
_SEED = 20261124
_SPREAD = 0.5  # lengths lie between this share of the mean below and above it
WHAT = (
    "Milliseconds of a decoding step's parts on the GPU: attention over vLLM's paged cache, matrix products "
    "of all layers, output matrix, output matrix and sampling, and the step of all of them with its norms; "
    "each captured in a CUDA graph and replayed, the median of replays."
)


def main() -> None:
    """Measures every point of every model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--minutes", type=float, default=10.0, help="start no point later than this")
    parser.add_argument("--dry-run", action="store_true", help="two layers on a processor, without times")
    given = parser.parse_args()
    latest = time.monotonic() + 60 * given.minutes
    rows: list[dict[str, Any]] = []
    for name in given.models:
        sizes = Sizes.of(find_config(name).values, layers=2 if given.dry_run else None)
        for sequences, context in POINTS[:2] if given.dry_run else POINTS:
            if time.monotonic() > latest:
                break
            milliseconds = _measured(sizes, sequences, context, "cpu" if given.dry_run else "cuda")
            rows.append(
                {"model": name, "sequences": sequences, "context": context, "milliseconds": milliseconds}
            )
            print(rows[-1], flush=True)
            given.output.write_text(json.dumps(_document(rows), indent=1) + "\n", encoding="utf-8")


def _document(rows: list[dict[str, Any]]) -> dict[str, Any]:
    software = {"torch": torch.__version__}
    if torch.cuda.is_available():
        software["vllm"] = metadata.version("vllm")
    return {
        "what": WHAT,
        "hardware": hardware(),
        "software": software,
        "date": date.today().isoformat(),
        "steps": rows,
    }


@torch.inference_mode()
def _measured(sizes: Sizes, sequences: int, context: int, device: str) -> dict[str, float]:
    drawn = Random(_SEED)
    lengths = [round(context * drawn.uniform(1 - _SPREAD, 1 + _SPREAD)) for _ in range(sequences)]
    step = Step(sizes, lengths, device)
    step.prepare()
    if device == "cpu":
        for run in step.parts().values():
            run()
        return {}
    return {name: round(_replayed(run), 4) for name, run in step.parts().items()}


def _replayed(run: Callable[[], object]) -> float:
    """Milliseconds of one replay of a graph."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(_REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return median(times)


if __name__ == "__main__":
    main()
