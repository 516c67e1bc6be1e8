"""With which of verl's settings an update without the sequences that have no advantage is the same one."""

import functools
from typing import Any

from tuner.errors import TunerError
from tuner.inside_verl.settings import SKIP_ZERO_ADVANTAGE
from tuner.inside_verl.verl_process import configured
from tuner.language import N_, _

# Policy losses (verl 0.5.0 to 0.9.1, trainer/ppo/core_algos.py) in which each token's loss is its advantage
# times something that only its own sequence decides. The others have a term of their own (dro, kl_cov),
# choose tokens over the micro-batch (clip_cov, kl_cov), divide by its sequences (geo_mean) or weigh them
# (bypass_mode).
OWN_ADVANTAGE_LOSSES = ("vanilla", "dppo_tv", "dppo_kl", "gspo", "sapo", "gpg", "cispo")

_ACTS_ON_ALL = N_("it acts on sequences without an advantage too")
_OTHER_SEQUENCES = N_("this loss looks at other sequences too, or is no multiple of the advantage")
_PREFIXES = N_("sequences of one prompt have to stay together")
_CRITIC = N_("the advantages are a critic's, which do not vanish where all rewards of a prompt are equal")
_DIVISOR = N_(
    "without it the loss is divided by the longest response of a micro-batch, which would be another"
)
_SPREAD = N_("it shares sequences among ranks in its own way")


def _refuse(key: str, value: object, why: str) -> None:
    raise TunerError(
        _(
            "{variable} cannot be used with {key}={value}: {why}, so that the training would be another; "
            "change this setting, or unset {variable}"
        ).format(variable=SKIP_ZERO_ADVANTAGE.name, key=key, value=value, why=_(why))
    )


def check_loss(actor: Any) -> None:
    """Refuses an actor whose loss acts on sequences without an advantage.

    Args:
        actor: verl's configuration of the actor, under ``actor_rollout_ref.actor``.

    Raises:
        TunerError: naming the setting.
    """
    key = "actor_rollout_ref.actor."
    coefficient = configured(actor, "entropy_coeff")
    if coefficient:
        _refuse(key + "entropy_coeff", coefficient, _ACTS_ON_ALL)
    if configured(actor, "use_kl_loss") and configured(actor, "kl_loss_coef") != 0:
        _refuse(key + "use_kl_loss", True, _ACTS_ON_ALL)
    loss = configured(actor, "policy_loss.loss_mode") or "vanilla"
    if loss not in OWN_ADVANTAGE_LOSSES:
        _refuse(key + "policy_loss.loss_mode", loss, _OTHER_SEQUENCES)
    if configured(actor, "use_prefix_grouper"):
        _refuse(key + "use_prefix_grouper", True, _PREFIXES)
    _check_megatron(actor, key)
    if configured(actor, "model_config.mtp.enable_train"):
        _refuse("actor_rollout_ref.model.mtp.enable_train", True, _ACTS_ON_ALL)


def _check_megatron(actor: Any, key: str) -> None:
    auxiliary = configured(actor, "megatron.override_transformer_config.moe_aux_loss_coeff")
    if auxiliary:
        _refuse(key + "megatron.override_transformer_config.moe_aux_loss_coeff", auxiliary, _ACTS_ON_ALL)
    if configured(actor, "megatron.dynamic_context_parallel"):
        _refuse(key + "megatron.dynamic_context_parallel", True, _SPREAD)


def check_batch(actor: Any, fields: Any, *, padded: bool) -> None:
    """Refuses a batch whose loss would be divided otherwise, or whose advantages do not vanish.

    Args:
        actor: see ``check_loss``.
        fields: names of what the batch has.
        padded: whether responses have one width in all micro-batches.

    Raises:
        TunerError: naming the setting.
    """
    if "values" in fields:
        _refuse("algorithm.adv_estimator", "gae", _CRITIC)
    aggregation = configured(actor, "loss_agg_mode")
    if aggregation == "seq-mean-token-sum-norm" and not padded and not configured(actor, "loss_scale_factor"):
        _refuse("actor_rollout_ref.actor.loss_scale_factor", "null", _DIVISOR)


def refuse_legacy_megatron(original: Any) -> Any:
    """``MegatronPPOActor.update_policy`` of the legacy workers, which is left as it is and must not run so.

    Args:
        original: verl's method.
    """

    @functools.wraps(original)
    def refused(_self: Any, *_arguments: Any, **_named: Any) -> Any:
        raise TunerError(
            _(
                "{variable} is set, and the legacy Megatron workers cannot leave sequences out; "
                "set trainer.use_legacy_worker_impl=disable (0.7), or unset {variable}"
            ).format(variable=SKIP_ZERO_ADVANTAGE.name)
        )

    return refused


def refuse_distillation() -> None:
    """Refuses a loss that also distils a teacher.

    Raises:
        TunerError: always.
    """
    _refuse("distillation.enabled", True, _ACTS_ON_ALL)
