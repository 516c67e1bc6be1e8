"""Which of verl's losses the head can make the gradients of.

Sources: verl 0.5.0 to 0.9.1, ``compute_policy_loss_vanilla`` (0.5.0: ``compute_policy_loss``) and
``kl_penalty`` of ``trainer/ppo/core_algos.py``.
"""

from math import inf, nextafter
from typing import Any

from tuner.inside_verl.losses import innermost, loss_name
from tuner.inside_verl.verl_process import configured
from tuner.kernels.policy_objective import Objective

ACTOR = "actor_rollout_ref.actor."
KL_TYPES = ("low_var_kl", "k3")  # two names of one estimate


class NotCoveredError(Exception):
    """A setting with which the gradients are not made in the forward pass."""

    def __init__(self, setting: str, value: object) -> None:
        super().__init__(setting, value)
        self.setting = setting
        self.value = value


def actor_of(loss_function: Any) -> Any:
    """The configuration of the actor whose loss this is.

    Raises:
        NotCoveredError: another loss.
    """
    name = loss_name(loss_function)
    if name == "distillation_ppo_loss":
        raise NotCoveredError("distillation.enabled", True)
    if name != "ppo_loss":
        raise NotCoveredError("loss", name)
    return innermost(loss_function).keywords["config"]


def objective_of(actor: Any, *, entropy: bool, on_policy: bool = False) -> Objective:
    """The coefficients of an actor's loss.

    Args:
        actor: verl's configuration, under ``actor_rollout_ref.actor``.
        entropy: whether the loss gets entropies.
        on_policy: whether verl takes the ratio to the log-probabilities of the same forward pass.

    Raises:
        NotCoveredError: a loss that is not these coefficients'.
    """
    loss_mode = configured(actor, "policy_loss.loss_mode") or "vanilla"
    if loss_mode != "vanilla":
        raise NotCoveredError(ACTOR + "policy_loss.loss_mode", loss_mode)
    objective = Objective(
        # Below zero no ratio is clipped, as the kernel has it at one.
        clip_ratio_low=min(_clip(actor, "clip_ratio_low"), 1.0),
        clip_ratio_high=_clip(actor, "clip_ratio_high"),
        clip_ratio_c=_number(actor, "clip_ratio_c", 3.0, least=nextafter(1.0, inf)),
        entropy_coeff=_number(actor, "entropy_coeff", 0.0) if entropy else 0.0,
        kl_loss_coef=_number(actor, "kl_loss_coef", 0.0) if configured(actor, "use_kl_loss") else 0.0,
        on_policy=on_policy,
    )
    estimate = configured(actor, "kl_loss_type")
    if objective.kl_loss_coef and estimate not in KL_TYPES:
        raise NotCoveredError(ACTOR + "kl_loss_type", estimate)
    return objective


def _clip(actor: Any, name: str) -> float:
    own = configured(actor, name)
    return _number(actor, "clip_ratio" if own is None else name, 0.2, least=0.0)


def _number(actor: Any, name: str, default: float, least: float = -inf) -> float:
    value = configured(actor, name)
    number = float(default if value is None else value)
    if not least <= number < inf:
        raise NotCoveredError(ACTOR + name, value)
    return number
