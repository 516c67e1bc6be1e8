"""The passes of a step over its models, enumerated once for all who price, judge or change them."""

from math import ceil

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.model_shape import ModelShape
from tuner.workload.batch import Batch, Batching, Pass
from tuner.workload.engine import Engine
from tuner.workload.head import HeadKind, OutputHead
from tuner.workload.rollout import Service
from tuner.workload.step import Actor, Critic, Phase, Reference

_VALUE_HEAD = OutputHead(kind=HeadKind.VALUE)


class Role(Enum):
    """What a model is for in a step."""

    ACTOR = "actor"
    REFERENCE = "reference"
    CRITIC = "critic"
    REWARD = "reward"


class StepPass(Struct, frozen=True, kw_only=True, cache_hash=True):
    """One pass of a step: the phase that it is, over which model, with which engine and settings."""

    phase: Phase
    role: Role
    model: ModelShape
    engine: Engine
    head: OutputHead
    settings: Pass
    training: bool  # forward, backward and optimizer step; False: forward only

    @property
    def batching(self) -> Batching:
        """How its micro-batches are cut."""
        return self.settings.batching

    def mini_batch_sequences(self, batch: Batch) -> int:
        """Sequences of one optimizer step, over all GPUs."""
        own = self.settings.mini_batch_sequences
        return batch.mini_batch_sequences if own is None else min(own, batch.sequences)

    def rank_mini_batch_sequences(self, batch: Batch) -> int:
        """Sequences of one optimizer step on one data-parallel rank, at least 1.

        Where ranks cannot share a mini-batch evenly, old releases round down and later ones refuse to start.

        Source: verl 0.3.0.post1 to 0.7.1 ``workers/fsdp_workers.py``, ``workers/megatron_workers.py``
        (``ppo_mini_batch_size //=``); 0.7.0 to 0.9.1 ``workers/engine_workers.py`` (``train_mini_batch``).
        """
        return max(1, self.mini_batch_sequences(batch) // self.engine.parallel.data)

    def mini_batches(self, batch: Batch) -> int:
        """Mini-batches that a rank's sequences of a step are cut into; the last one may be smaller.

        Source: verl 0.7.1 ``workers/actor/dp_actor.py`` (``data.split``).
        """
        of_rank = ceil(batch.sequences / self.engine.parallel.data)
        return ceil(of_rank / self.rank_mini_batch_sequences(batch))

    def optimizer_steps(self, batch: Batch) -> int:
        """Optimizer steps in all epochs of a training step."""
        epochs = batch.epochs if self.settings.epochs is None else self.settings.epochs
        return epochs * self.mini_batches(batch)

    @property
    def entropy(self) -> bool:
        """Whether it computes the entropy beside the log-probabilities."""
        return self.settings.entropy


def step_passes(
    model: ModelShape,
    actor: Actor,
    reference: Reference | None,
    critic: Critic | None,
    reward: Service | None = None,
    *,
    generates: bool = True,
) -> tuple[StepPass, ...]:
    """The passes that a step has, in the order in which it makes them.

    Args:
        model: the policy's; the reference has the same unless it says another.
        actor: the policy that is trained.
        reference: the frozen policy, None without one.
        critic: the value model, None without one.
        reward: the reward model, None without one; it has a pass where the trainer's engine runs it.
        generates: whether the policy learns from its own responses, not from given sequences.
    """
    training = Phase.UPDATE_ACTOR if generates else Phase.TRAIN
    passes = [] if reward is None else _of_reward(reward)
    if actor.log_prob is not None:
        passes.append(_of_actor(model, actor, Phase.OLD_LOG_PROB, actor.log_prob, training=False))
    if reference is not None:
        passes.append(
            StepPass(
                phase=Phase.REF_LOG_PROB,
                role=Role.REFERENCE,
                model=reference.model or model,
                engine=reference.engine,
                head=reference.head,
                settings=reference.log_prob,
                training=False,
            )
        )
    if critic is not None:
        passes.append(_of_critic(critic, Phase.VALUES, critic.values, training=False))
        passes.append(_of_critic(critic, Phase.UPDATE_CRITIC, critic.update, training=True))
    passes.append(_of_actor(model, actor, training, actor.update, training=True))
    return tuple(passes)


def _of_actor(model: ModelShape, actor: Actor, phase: Phase, settings: Pass, *, training: bool) -> StepPass:
    return StepPass(
        phase=phase,
        role=Role.ACTOR,
        model=model,
        engine=actor.engine,
        head=actor.head,
        settings=settings,
        training=training,
    )


def _of_critic(critic: Critic, phase: Phase, settings: Pass, *, training: bool) -> StepPass:
    return StepPass(
        phase=phase,
        role=Role.CRITIC,
        model=critic.model,
        engine=critic.engine,
        head=_VALUE_HEAD,
        settings=settings,
        training=training,
    )


def _of_reward(reward: Service) -> list[StepPass]:
    """The pass over the reward model; none where an inference engine serves it, on other GPUs, or unknown."""
    if reward.model is None or reward.engine is None or reward.scoring is None:
        return []
    return [
        StepPass(
            phase=Phase.REWARD,
            role=Role.REWARD,
            model=reward.model,
            engine=reward.engine,
            head=_VALUE_HEAD,
            settings=reward.scoring,
            training=False,
        )
    ]
