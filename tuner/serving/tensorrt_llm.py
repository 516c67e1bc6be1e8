"""What TensorRT-LLM does with memory, as read in 1.2.0rc6."""

from typing import Any

from tuner.workload import FractionOf

#: Sequences that run at once where nobody says.
DEFAULT_SEQUENCES = 256

_BLOCK = 32  # tokens


def memory_facts() -> dict[str, Any]:
    """Fields of :class:`~tuner.workload.Rollout` that hold for every release."""
    return {"fraction_of": FractionOf.FREE_AFTER_WEIGHTS, "block_tokens": _BLOCK, "frees_windows": False}
