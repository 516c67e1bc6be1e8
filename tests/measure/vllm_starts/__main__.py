"""What vLLM's start takes of a GPU, and what it counts of that within its share; run it by hand.

    PYTHONPATH=.:tests python -m measure.vllm_starts --output FILE [--starts NAME ...]

Needs a GPU of 80 GB and vLLM. Every start is a process with random weights, and compiles its model.
"""

import argparse
import json
from dataclasses import replace
from datetime import date
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from measure.readings import hardware
from measure.vllm_starts.engine import Start, work

from tuner.models.library import find_config

NOTES = (
    "non_torch_bytes of a step: used on the device and not reserved by PyTorch's allocator.",
    "requested, available, weights, activation, non_torch, graph_estimate: bytes as vLLM's worker has them.",
    "peak: the largest tensors at the peak of the profile run, and the lines that made them, innermost first",
)


def _start(name: str, architecture: str, **changes: Any) -> Start:
    config = {**find_config(name).values, "architectures": [architecture]}
    return Start(model=name, config=config, **changes)


def starts() -> dict[str, Start]:
    """By name: both runners, two numbers of sequences."""
    large = _start("Qwen/Qwen3-4B", "Qwen3ForCausalLM")
    small = _start("Qwen/Qwen2.5-1.5B-Instruct", "Qwen2ForCausalLM")
    return {
        "qwen3-4b": large,
        "qwen3-4b-first-runner": replace(large, second_runner=False),
        "qwen2.5-1.5b": small,
        "qwen2.5-1.5b-512": replace(small, sequences=512),
        "qwen2.5-1.5b-second-runner": replace(small, second_runner=True),
    }


def main() -> None:
    """Start one after another; what was read is written after each, also where some failed."""
    parser = argparse.ArgumentParser(description="Record what vLLM's start takes of a GPU.")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--starts", nargs="+", choices=list(starts()), default=list(starts()))
    given = parser.parse_args()
    software = {name: metadata.version(name) for name in ("vllm", "torch", "transformers")}
    context = get_context("spawn")
    recorded: list[dict[str, Any]] = []
    for name in given.starts:
        results = context.Queue()
        child = context.Process(target=work, args=(starts()[name], results))
        child.start()
        recorded.append({"start": name, **results.get()})
        child.join()
        given.output.write_text(json.dumps(_file(software, recorded), indent=1) + "\n", encoding="utf-8")


def _file(software: dict[str, str], recorded: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "what": "starts of vLLM's engine with random weights, half of the card",
        "hardware": hardware(),
        "software": software,
        "date": date.today().isoformat(),
        "notes": NOTES,
        "starts": recorded,
    }


if __name__ == "__main__":
    main()
