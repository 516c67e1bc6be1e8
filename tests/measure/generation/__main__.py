"""How long vLLM's own engine generates a batch of different lengths; run it by hand.

    PYTHONPATH=.:tests python -m measure.generation --output FILE [--models NAME ...] [--seconds S]

Needs a GPU of 80 GB and vLLM. Each model is started once with random weights, in processes of its own, and
generates under several limits of sequences at once, and with several sizes of its KV cache. After
``--seconds`` no other batch begins, and a minute later all is over, whatever hangs.
``tests/timing/test_generation_measured.py`` holds the model's simulation beside what was recorded.
"""

import argparse
import json
import signal
import sys
import time
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from measure.generation.engine import Batch, Start
from measure.generation.heard import messages_of
from measure.readings import hardware

from tuner.models.library import find_config

BATCHES = (
    *(Batch(limit=limit) for limit in (1024, 256, 64)),
    *(Batch(limit=1024, cached=cached) for cached in (1 / 3, 1 / 10)),
)
NOTES = (
    "seconds: of one batch from its first request to its last token, repeated as often as listed.",
    "responses: tokens of each, in the order in which they were asked for; none ends earlier.",
    "prompts: groups of requests with the same prompt, one after another, as verl asks for responses.",
    "limit: sequences that run at once; the engine starts with the largest, and is told the others.",
    "cache_blocks: those of a batch; the engine starts with the most, and from others some are held back.",
    "gpu_memory_utilization: with which the engine would have started with these blocks.",
    "preemptions: sequences that lost their blocks and were computed again, in each repetition.",
    "second_runner: of vLLM's two. No request sets top-k or top-p, for which alone FlashInfer would sample.",
)
#: The larger cache of the two first: where time is short, its batches are those that there are.
ARCHITECTURES = {
    "Qwen/Qwen3-4B": "Qwen3ForCausalLM",
    "Qwen/Qwen2.5-1.5B-Instruct": "Qwen2ForCausalLM",
}


def main() -> None:
    """Start one model after another; what was read is written after each batch."""
    parser = argparse.ArgumentParser(
        description="Record how long vLLM generates batches of different lengths."
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--models", nargs="+", choices=list(ARCHITECTURES), default=list(ARCHITECTURES))
    parser.add_argument("--seconds", type=float, default=400.0, help="After these no other batch begins.")
    parser.add_argument(
        "--grace", type=float, default=60.0, help="Seconds after those, in which the last batch may end."
    )
    parser.add_argument(
        "--silence", type=float, default=180.0, help="Seconds that a start or a batch may take."
    )
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    cases: dict[tuple[str, int], dict[str, Any]] = {}
    errors: list[dict[str, Any]] = []
    for name in given.models:
        if time.monotonic() > end:
            break
        config = {**find_config(name).values, "architectures": [ARCHITECTURES[name]]}
        start = Start(model=name, config=config, batches=BATCHES, end=end)
        for message in messages_of(start, silence_s=given.silence, end=end + given.grace):
            if "error" in message:
                errors.append({"model": name, **message})
                print(message["error"], file=sys.stderr, flush=True)
            else:
                cases[name, message.pop("batch")] = message
            file = _file(list(cases.values()), errors)
            given.output.write_text(json.dumps(file, indent=1) + "\n", encoding="utf-8")


def _file(cases: list[dict[str, Any]], errors: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "what": "batches of different lengths that vLLM's engine generated with random weights",
        "hardware": hardware(),
        "software": {name: metadata.version(name) for name in ("vllm", "torch", "transformers", "triton")},
        "date": date.today().isoformat(),
        "notes": NOTES,
        "generated": cases,
        **({"errors": errors} if errors else {}),
    }


if __name__ == "__main__":
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # the engine is a session of its own: it is ended too
    main()
