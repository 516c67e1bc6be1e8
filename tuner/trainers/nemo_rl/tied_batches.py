"""Micro-batches of training and of log-probabilities that NeMo-RL asserts to be equal.

Source: NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/models/policy/lm_policy.py`` (``NRL_IGNORE_TP_ACCURACY_CHECK``),
which ``algorithms/grpo.py`` sets with ``force_on_policy_ratio``.
"""

from collections.abc import Mapping

from tuner.errors import InputError
from tuner.language import _
from tuner.trainers.settings_by_meaning import SettingsByMeaning

LEAST_RANKS = 4  # of tensor parallelism, from which sums round otherwise for another batch
TRAINING, LOG_PROB = "policy.train_micro_batch_size", "policy.logprob_batch_size"


def tensor_ranks(source: SettingsByMeaning) -> int:
    """Ranks of tensor parallelism of the engine that trains."""
    return source.integer("megatron.tensor" if source.flag("megatron") else "dtensor.tensor", default=1)


def sizes(source: SettingsByMeaning) -> tuple[int, int]:
    """Both sizes: of training, and of log-probabilities."""
    training = source.integer("micro_batch", default=1)
    return training, source.integer("log_prob_micro_batch", default=training)


def are_compared(source: SettingsByMeaning) -> bool:
    """Whether a start compares them."""
    named = source.value("log_prob_micro_batch") is not None
    return named and tensor_ranks(source) >= LEAST_RANKS and not source.flag("on_policy")


def are_tied(source: SettingsByMeaning) -> bool:
    """Whether a change of one has to be a change of the other: they are compared, and equal."""
    training, log_prob = sizes(source)
    return are_compared(source) and training == log_prob


def followers(source: SettingsByMeaning) -> Mapping[str, str]:
    """The key that is set as another one is."""
    return {TRAINING: LOG_PROB} if are_tied(source) else {}


def expect_uncompared(before: SettingsByMeaning, after: SettingsByMeaning) -> None:
    """Refuse tensor parallelism that a proposal raises so far that sizes are compared which differ.

    Raises:
        InputError: they do.
    """
    training, log_prob = sizes(after)
    if are_compared(after) and not are_compared(before) and training != log_prob:
        raise InputError(
            _("{first}={training} and {second}={log_prob} differ").format(
                first=TRAINING, training=training, second=LOG_PROB, log_prob=log_prob
            )
        )
