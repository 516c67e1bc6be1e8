"""A whole training job: reinforcement learning, or supervised fine-tuning."""

from functools import lru_cache
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.enumeration import Enum
from tuner.hardware import Cluster
from tuner.model_shape import ModelShape
from tuner.workload.batch import Batch, Batching, Pass
from tuner.workload.engine import Backend, Checkpointing, Engine, Parallelism
from tuner.workload.head import HeadKind, OutputHead
from tuner.workload.passes import StepPass, step_passes
from tuner.workload.rollout import Rollout, Service, ServiceRole
from tuner.workload.step import Actor, Controller, Critic, Phase, Reference, WeightSync


class Release(Struct, frozen=True, kw_only=True):
    """A trainer and its version, for messages only."""

    trainer: str
    version: str

    def __str__(self) -> str:
        return f"{self.trainer} {self.version}"


class Quantity(Enum):
    """A setting that decides what fits, whatever a trainer calls it."""

    MAX_PROMPT_TOKENS = "max_prompt_tokens"
    MAX_RESPONSE_TOKENS = "max_response_tokens"
    TOKEN_BUDGET = "token_budget"
    MICRO_BATCH_SEQUENCES = "micro_batch_sequences"
    MEMORY_FRACTION = "memory_fraction"
    PARAM_OFFLOAD = "param_offload"
    OPTIMIZER_OFFLOAD = "optimizer_offload"
    CHECKPOINTING = "checkpointing"
    PACKED = "packed"


class Workload(Struct, frozen=True, kw_only=True, cache_hash=True):
    """One training job, as far as memory and time depend on it.

    A job that generates nothing learns from given sequences: it has neither a rollout nor a weight sync, and
    its step is one training pass.
    """

    validates_only: ClassVar[bool] = False  # it ends behind a validation: none of its passes runs
    release: Release
    model: ModelShape
    cluster: Cluster
    batch: Batch
    actor: Actor
    reference: Reference | None
    critic: Critic | None
    rollout: Rollout | None  # None of a job that generates nothing
    sync: WeightSync | None  # as the rollout
    services: tuple[Service, ...] = ()  # models that judge the responses
    controller: Controller | None = None  # None where nobody said what its processes are
    added_models: tuple[
        str, ...
    ] = ()  # that a copy of the trainer adds, as its keys name them: nothing is known

    def passes(self) -> tuple[StepPass, ...]:
        """The job's passes over models, in the order of a step."""
        return _passes(self)

    @property
    def generator(self) -> Rollout:
        """The rollout of a job that generates.

        Raises:
            ValueError: the job generates nothing.
        """
        if self.rollout is None:
            raise ValueError("the workload has no rollout")
        return self.rollout

    @property
    def weight_sync(self) -> WeightSync:
        """How new weights reach the rollout engine of a job that generates.

        Raises:
            ValueError: the job generates nothing.
        """
        if self.sync is None:
            raise ValueError("the workload has no weight sync")
        return self.sync

    @property
    def unmodelled_engine(self) -> str:
        """The library that runs one of the trained models, where what it takes is not known; else empty."""
        return _unmodelled_engine(self)

    @property
    def trains_reward(self) -> bool:
        """Whether a model that judges is trained as well; its states are offloaded as the actor's."""
        return any(service.trained for service in self.services)

    @property
    def at_rest(self) -> "Workload":
        """The job with passes that say nothing: the same for all jobs that differ in passes only.

        What a pass recomputes is part of it.
        """
        return _at_rest(self)

    @property
    def generating(self) -> "Workload":
        """The job without its trainer: the same for all jobs whose rollout engine is the same.

        What an engine holds of its own, but for a cache that is the smaller for what the trainer holds.
        """
        return _generating(self)

    @property
    def standing(self) -> "Workload":
        """The job with a batch and a memory fraction that say nothing.

        What engines hold between passes and send each other is the same for jobs that differ in these alone.
        """
        return _standing(self)

    @property
    def reward(self) -> Service | None:
        """The reward model, None where rewards are computed by rules alone."""
        return next((service for service in self.services if service.role is ServiceRole.REWARD), None)

    @property
    def scoring(self) -> StepPass | None:
        """The pass over the reward model; None without one, and where an inference engine serves it."""
        return self.pass_of(Phase.REWARD) if self.services else None

    @property
    def saves(self) -> bool:
        """Whether the job writes checkpoints."""
        critic = self.critic
        return self.actor.saving is not None or (critic is not None and critic.saving is not None)

    @property
    def actor_update(self) -> StepPass:
        """The actor's training, which every step has and ends with."""
        return self.passes()[-1]

    def pass_of(self, phase: Phase) -> StepPass | None:
        """The pass of a phase, None where the phase is none or the step lacks it."""
        return next((step_pass for step_pass in self.passes() if step_pass.phase is phase), None)

    def with_batch(self, **changes: Any) -> "Workload":
        """A copy with other batch sizes."""
        return replace(self, batch=replace(self.batch, **changes))

    def with_rollout(self, **changes: Any) -> "Workload":
        """A copy with another rollout; the workload must have one."""
        return replace(self, rollout=replace(self.generator, **changes))

    def with_actor(self, **changes: Any) -> "Workload":
        """A copy with another actor."""
        return replace(self, actor=replace(self.actor, **changes))

    def with_actor_engine(self, **changes: Any) -> "Workload":
        """A copy with another actor engine."""
        engine = replace(self.actor.engine, **changes)
        return self.with_actor(engine=engine)

    def with_actor_head(self, **changes: Any) -> "Workload":
        """A copy with another output head of the actor."""
        head = replace(self.actor.head, **changes)
        return self.with_actor(head=head)

    def with_reference(self, **changes: Any) -> "Workload":
        """A copy with another reference; the workload must have one."""
        if self.reference is None:
            raise ValueError("the workload has no reference")
        return replace(self, reference=replace(self.reference, **changes))

    def with_policy_engines(self, **changes: Any) -> "Workload":
        """A copy with another engine of the actor, and of the reference where there is one."""
        changed = self.with_actor_engine(**changes)
        if self.reference is None:
            return changed
        return changed.with_reference(engine=replace(self.reference.engine, **changes))

    def with_critic(self, **changes: Any) -> "Workload":
        """A copy with another critic; the workload must have one."""
        if self.critic is None:
            raise ValueError("the workload has no critic")
        return replace(self, critic=replace(self.critic, **changes))

    def with_reward(self, **changes: Any) -> "Workload":
        """A copy with another reward model; the workload must have one."""
        reward = self.reward
        if reward is None:
            raise ValueError("the workload has no reward model")
        changed = replace(reward, **changes)
        return replace(
            self, services=tuple(changed if service is reward else service for service in self.services)
        )


class ValidationWorkload(Workload, frozen=True, kw_only=True, cache_hash=True):
    """A job that ends behind a validation, whose batch is all that is validated.

    Its passes are told like those of any job, since states of theirs are there, but none of them runs.
    """

    validates_only: ClassVar[bool] = True
    drops_rest: bool = False  # rows that fill no batch are left out, and at least one batch has to be there

    @classmethod
    def of(cls, workload: Workload, batch: Batch, *, drops_rest: bool) -> "ValidationWorkload":
        """The validation of a job."""
        fields = {name: getattr(workload, name) for name in workload.__struct_fields__}
        return cls(**fields | {"batch": batch}, drops_rest=drops_rest)

    def training(self, batch: Batch) -> Workload:
        """The job that goes on to train, with the batch of its steps."""
        fields = {name: getattr(self, name) for name in Workload.__struct_fields__}
        return Workload(**fields | {"batch": batch})


_ANY_PASS = Pass(batching=Batching(dynamic=False, token_budget=1, micro_batch_sequences=1))


@lru_cache(maxsize=256)
def _at_rest(workload: Workload) -> Workload:
    reference, critic = workload.reference, workload.critic
    return replace(
        workload,
        actor=_actor_at_rest(workload.actor),
        reference=None if reference is None else _reference_at_rest(reference),
        critic=None if critic is None else _critic_at_rest(critic),
    )


# The same part gives the same struct again, so that what is looked up by it is known by its identity.
@lru_cache(maxsize=256)
def _actor_at_rest(actor: Actor) -> Actor:
    log_prob = None if actor.log_prob is None else _ANY_PASS
    return replace(actor, engine=_engine_at_rest(actor.engine), update=_ANY_PASS, log_prob=log_prob)


@lru_cache(maxsize=256)
def _reference_at_rest(reference: Reference) -> Reference:
    return replace(reference, engine=_engine_at_rest(reference.engine), log_prob=_ANY_PASS)


@lru_cache(maxsize=256)
def _critic_at_rest(critic: Critic) -> Critic:
    return replace(critic, engine=_engine_at_rest(critic.engine), update=_ANY_PASS, values=_ANY_PASS)


@lru_cache(maxsize=256)
def _engine_at_rest(engine: Engine) -> Engine:
    """An engine that recomputes nothing: what it keeps between passes is the same."""
    return replace(engine, checkpointing=Checkpointing.NONE, recompute_layers=1, recompute_first_layers=None)


_ANY_BATCH = Batch(
    prompts=1,
    responses_per_prompt=1,
    mini_batch_prompts=1,
    epochs=1,
    max_prompt_tokens=1,
    max_response_tokens=1,
)


@lru_cache(maxsize=256)
def _standing(workload: Workload) -> Workload:
    rollout = workload.rollout
    return replace(
        workload,
        batch=replace(_ANY_BATCH, images=workload.batch.images),  # with them an engine has a tower at work
        rollout=None if rollout is None else rollout.unsized,
    )


_ANY_TRAINER = Actor(
    engine=Engine(
        backend=Backend.NOT_MODELLED,
        parallel=Parallelism(gpus=1),
        stored_dtype=DType.BFLOAT16,
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.BFLOAT16,
        optimizer_dtype=DType.BFLOAT16,
        checkpointing=Checkpointing.NONE,
        packed=True,
    ),
    head=OutputHead(kind=HeadKind.LOGITS),
    update=_ANY_PASS,
    log_prob=None,
)


@lru_cache(maxsize=256)
def _generating(workload: Workload) -> Workload:
    return replace(workload, actor=_ANY_TRAINER, reference=None, critic=None, sync=None, services=())


@lru_cache(maxsize=512)  # asked of every job before its bytes and seconds are
def _unmodelled_engine(workload: Workload) -> str:
    roles = (workload.actor, workload.reference, workload.critic)
    return next((role.engine.library for role in roles if role is not None and role.engine.library), "")


@lru_cache(maxsize=256)  # the models, the rules and the advice go through the passes of a job again and again
def _passes(workload: Workload) -> tuple[StepPass, ...]:
    return _passes_of(
        workload.model,
        workload.actor,
        workload.reference,
        workload.critic,
        workload.reward,
        generates=workload.rollout is not None,
    )


_passes_of = lru_cache(maxsize=2048)(step_passes)  # jobs with another rollout engine have the same
