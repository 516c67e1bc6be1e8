"""What SGLang does with memory.

Read in SGLang 0.4.4, 0.4.6, 0.5.2, 0.5.5, 0.5.6, 0.5.8 and 0.5.12, which agree in what is told here.
"""

from typing import Any

from tuner.dtypes import DType
from tuner.workload import FractionOf

#: Sequences that run at once, and tokens of one prefill step, where nobody says.
DEFAULT_SEQUENCES, PREFILL_TOKENS = 2048, 8192


def memory_facts() -> dict[str, Any]:
    """Fields of :class:`~tuner.workload.Rollout` that hold for every release."""
    return {
        "fraction_of": FractionOf.STATIC_POOL,
        "block_tokens": 1,
        "frees_windows": False,
        "state_dtype": DType.FLOAT32,
        "quantizes_cache": True,
    }
