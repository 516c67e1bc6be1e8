"""What a step of vLLM's engine takes where its host decides; run it by hand.

    PYTHONPATH=.:tests python -m measure.engine_steps --output FILE [--starts NAME ...] [--seconds S]

Needs a GPU of 80 GB and vLLM. A model of few layers leaves the GPU little to do, so that the host decides how
long a step takes; the whole one tells what both take. After ``--seconds`` no other start begins.
"""

import os
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from measure.engine_steps.engine import LONG, SHORT, Start, work
from measure.fresh_starts import record_starts
from measure.readings import hardware

from tuner.models.library import find_config
from tuner.models.shape import cut_config

NOTES = (
    f"seconds: of one step, what {LONG} tokens of each response took longer than {SHORT}, by their steps.",
    "processor_seconds: of one step, of each process: the front end, which asks for responses, the engine's "
    "core, which schedules, and its worker, where that is a process of its own.",
    "way: verl, as its server asks, for each token with its text and log-probability as it comes; bare, for "
    "the whole response without either.",
    "executor: mp, as verl starts an engine, has the worker in a process of its own; uni, as vLLM does by "
    "itself, in that of the core.",
)
LAYERS = 4
FEW = (1, 4, 16, 64, 128, 256)
NAMES = ("verl-4-layers", "uni-4-layers", "verl-whole")


def starts(folder: Path) -> dict[str, Start]:
    """By name."""
    whole = {**find_config("Qwen/Qwen2.5-1.5B-Instruct").values, "architectures": ["Qwen2ForCausalLM"]}
    cut = {**cut_config(whole, LAYERS), "architectures": ["Qwen2ForCausalLM"]}
    both = ("verl", "bare")
    made = (
        ("verl-4-layers", cut, "mp", both, FEW),
        ("uni-4-layers", cut, "uni", both, FEW),
        ("verl-whole", whole, "mp", ("verl",), FEW[:5]),
    )
    return {
        name: Start(
            name=name,
            config=config,
            folder=str(folder / str(config["num_hidden_layers"])),
            executor=executor,
            ways=ways,
            sequences=sequences,
        )
        for name, config, executor, ways, sequences in made
    }


def main() -> None:
    """One start after another."""
    record_starts(__doc__, NAMES, starts=starts, work=work, file=_file)


def _file(recorded: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "what": f"a step of vLLM's engine: Qwen2.5-1.5B and its first {LAYERS} layers, with random weights",
        "hardware": hardware(),
        "host": {"processor": _processor(), "processors": os.cpu_count()},
        "software": {name: metadata.version(name) for name in ("vllm", "torch", "transformers")},
        "date": date.today().isoformat(),
        "notes": NOTES,
        "starts": recorded,
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "?")


if __name__ == "__main__":
    main()
