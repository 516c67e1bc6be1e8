"""The output head: log-probability and entropy of labels, from hidden states or from logits.

Nothing here is imported before it is used: ``import tuner.kernels`` needs neither torch nor triton.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.kernels.entropy import log_prob_and_entropy
    from tuner.kernels.head import Mode, linear_cross_entropy

__all__ = ["Mode", "linear_cross_entropy", "log_prob_and_entropy"]

_HOMES = {
    "Mode": "tuner.kernels.head",
    "linear_cross_entropy": "tuner.kernels.head",
    "log_prob_and_entropy": "tuner.kernels.entropy",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
