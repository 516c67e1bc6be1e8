"""How long vLLM's engine compiles kernels while it generates; run it by hand.

    PYTHONPATH=.:tests python -m measure.late_kernels --output FILE [--starts NAME ...] [--seconds S]

Needs a GPU of 80 GB and vLLM. Every start is a process with random weights and an engine in it, whose cache
of compiled kernels is empty for the first one of a model and filled for its second one. After ``--seconds``
no other start begins; what was read is written after each.
"""

from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from measure.fresh_starts import record_starts
from measure.late_kernels.engine import Start, work
from measure.readings import hardware

from tuner.models.library import find_config
from tuner.models.shape import cut_config

NOTES = (
    "alone: one prompt of so many tokens, which asks for one token. Each comes twice, with other tokens.",
    "rounds: prompts as verl sends them, four requests with each; a few are asked for before the first step.",
    "seconds: of one step of the engine, or of one request alone. compiled: kernels that Triton made or read "
    "from its cache of files in that time, by name, with the seconds of each.",
    "cache: what lay in vLLM's folder of compiled kernels when the engine started.",
)
LAYERS = 6
NAMES = ("mixture", "mixture-again", "dense")


def starts(folder: Path) -> dict[str, Start]:
    """By name: a mixture of experts twice, and a model without."""
    mixture = cut_config(find_config("qwen3-30b-a3b").values, LAYERS)
    dense = find_config("Qwen/Qwen2.5-1.5B-Instruct").values
    made = (
        ("mixture", mixture, "Qwen3MoeForCausalLM", "empty"),
        ("mixture-again", mixture, "Qwen3MoeForCausalLM", "of the start before"),
        ("dense", dense, "Qwen2ForCausalLM", "empty"),
    )
    return {
        name: Start(
            name=name,
            config={**values, "architectures": [architecture]},
            folder=str(folder / architecture),
            cache=cache,
        )
        for name, values, architecture, cache in made
    }


def main() -> None:
    """One start after another."""
    record_starts(__doc__, NAMES, starts=starts, work=work, file=_file)


def _file(recorded: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "what": f"kernels that vLLM compiled while it generated: the first {LAYERS} layers of Qwen3-30B-A3B, "
        "and Qwen2.5-1.5B, with random weights",
        "hardware": hardware(),
        "software": {name: metadata.version(name) for name in ("vllm", "torch", "transformers", "triton")},
        "date": date.today().isoformat(),
        "notes": NOTES,
        "starts": recorded,
    }


if __name__ == "__main__":
    main()
