"""The models of a step, each with its engine and its passes."""

from msgspec import Struct

from tuner.model_shape import ModelShape
from tuner.workload.batch import Pass
from tuner.workload.engine import Engine
from tuner.workload.head import OutputHead


class Actor(Struct, frozen=True, kw_only=True):
    """The policy that is trained."""

    engine: Engine
    head: OutputHead
    update: Pass
    log_prob: Pass | None  # None where the step takes the rollout's own log-probabilities


class Reference(Struct, frozen=True, kw_only=True):
    """The frozen policy of the KL term."""

    engine: Engine
    head: OutputHead
    log_prob: Pass
    separate: bool = True  # False when it is the actor with its adapters switched off


class Critic(Struct, frozen=True, kw_only=True):
    """The value model of PPO with GAE."""

    model: ModelShape
    engine: Engine
    update: Pass
    values: Pass
