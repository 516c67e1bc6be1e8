"""The phases of a step."""

from enum import Enum


class Phase(Enum):
    """The phases of one step, in order; the values are the trainer's timer names."""

    ROLLOUT = "rollout"
    OLD_LOG_PROB = "old_log_prob"
    REF_LOG_PROB = "ref_log_prob"
    VALUES = "values"
    UPDATE_CRITIC = "update_critic"
    UPDATE_ACTOR = "update_actor"
    UPDATE_WEIGHTS = "update_weights"
    WAKE_UP = "wake_up"
