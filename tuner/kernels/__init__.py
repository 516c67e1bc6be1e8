"""The output head: log-probability, entropy and policy loss, from hidden states or from logits.

Nothing here is imported before it is used: ``import tuner.kernels`` needs neither torch nor triton.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.kernels.entropy import log_prob_and_entropy
    from tuner.kernels.head import Mode, linear_cross_entropy
    from tuner.kernels.policy_loss import PolicyLoss, linear_policy_loss

__all__ = ["Mode", "PolicyLoss", "linear_cross_entropy", "linear_policy_loss", "log_prob_and_entropy"]

_HOMES = {
    "Mode": "tuner.kernels.head",
    "PolicyLoss": "tuner.kernels.policy_loss",
    "linear_cross_entropy": "tuner.kernels.head",
    "linear_policy_loss": "tuner.kernels.policy_loss",
    "log_prob_and_entropy": "tuner.kernels.entropy",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
