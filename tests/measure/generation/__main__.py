"""How long vLLM's own engine generates a batch of different lengths; run it by hand.

    PYTHONPATH=.:tests python -m measure.generation --output FILE [--models NAME ...] [--seconds S]

Needs a GPU of 80 GB and vLLM. Each model is started once with random weights, in processes of its own.
``tests/timing/test_generation_measured.py`` holds the model's simulation beside what was recorded.
"""

import argparse
import json
import time
from datetime import date
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from measure.generation.engine import Batch, Start, work
from measure.readings import hardware

from tuner.models.library import find_config

LIMITS = (1024, 256, 64)
NOTES = (
    "seconds: of one batch from its first request to its last token, repeated as often as listed.",
    "responses: tokens of each, in the order in which they were asked for; none ends earlier.",
    "prompts: groups of requests with the same prompt, one after another, as verl asks for responses.",
    "limit: sequences that run at once; the engine starts with the largest, and is told the others.",
)
ARCHITECTURES = {
    "Qwen/Qwen2.5-1.5B-Instruct": "Qwen2ForCausalLM",
    "Qwen/Qwen3-4B": "Qwen3ForCausalLM",
}


def main() -> None:
    """Start one model after another; what was read is written after each batch."""
    parser = argparse.ArgumentParser(
        description="Record how long vLLM generates batches of different lengths."
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--models", nargs="+", choices=list(ARCHITECTURES), default=list(ARCHITECTURES))
    parser.add_argument("--seconds", type=float, default=400.0, help="After these no other batch begins.")
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    software = {name: metadata.version(name) for name in ("vllm", "torch", "transformers", "triton")}
    context = get_context("spawn")
    recorded: list[dict[str, Any]] = []
    for name in given.models:
        config = {**find_config(name).values, "architectures": [ARCHITECTURES[name]]}
        start = Start(model=name, config=config, batches=tuple(Batch(limit=limit) for limit in LIMITS))
        results = context.Queue()
        child = context.Process(target=work, args=(start, end, results))
        child.start()
        while (case := results.get()) is not None:
            recorded.append(case)
            file = _file(software, recorded)
            given.output.write_text(json.dumps(file, indent=1) + "\n", encoding="utf-8")
        child.join()


def _file(software: dict[str, str], recorded: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "what": "batches of different lengths that vLLM's engine generated with random weights",
        "hardware": hardware(),
        "software": software,
        "date": date.today().isoformat(),
        "notes": NOTES,
        "generated": recorded,
    }


if __name__ == "__main__":
    main()
