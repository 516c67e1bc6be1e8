"""Which engine runs the model of a role: actor, reference or critic."""

from functools import cached_property

from tuner.dtypes import DType
from tuner.errors import UnsupportedError
from tuner.inputs.settings import Settings
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.trainers.fields import (
    Assignments,
    Ruled,
)
from tuner.trainers.verl.fields.context import ReleaseContext
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.roles import has_adapters, uses_critic, uses_reference
from tuner.trainers.verl.source import ReleaseSettings, Role
from tuner.trainers.verl.unmodelled_engines import UNMODELLED
from tuner.workload import Backend, Checkpointing, Engine, Parallelism

_BACKENDS = {
    "fsdp": Backend.FSDP,
    "fsdp2": Backend.FSDP2,
    "fsdp_turbo": Backend.FSDP2,  # a planner that places fully_shard; policies are FSDP2's
    "megatron": Backend.MEGATRON,
    "veomni": Backend.FSDP2,  # with experts apart and keys of its own
}


class EngineContext(ReleaseContext, frozen=True, kw_only=True, dict=True):
    """What reading the engine of one role takes."""

    role: Role
    backend: Backend
    model: ModelShape
    gpus: int

    @property
    def switches(self) -> str:
        """Where the switches of the model stand: the reference shares the actor's."""
        return switches_of(self.role)

    @property
    def configured_role(self) -> Role:
        """The role whose keys configure the model; the legacy workers build the reference as the actor."""
        return _configured_role(self.source, self.role)

    @cached_property
    def grid_role(self) -> Role:
        """The role whose keys lay out Megatron's grid.

        Models that share a process share Megatron's groups, which are made once, for the model that is
        built first. Of the legacy workers that is the actor's. Of the engine workers the critic's engine
        is built with its worker, the reference's when models are loaded, and then the actor's.

        Source: verl 0.7.1 ``workers/megatron_workers.py:274-294, 1016-1036``,
        ``trainer/ppo/ray_trainer.py:698-731``; 0.9.1 ``workers/engine/megatron/transformer_impl.py``
        (``_init_device_mesh`` returns where ``mpu.is_initialized()``), ``workers/engine_workers.py``
        (``TrainingWorker.__init__``, ``ActorRolloutRefWorker.init_model``).
        """
        return grid_role(self.source, self.role)


def grid_role(source: ReleaseSettings, role: Role) -> Role:
    """The role whose keys lay out the grid of a role's model, see :attr:`EngineContext.grid_role`."""
    if not source.engine_workers:
        return "actor" if role == "critic" else _configured_role(source, role)
    if source.program.fine_tunes:
        return "actor"
    return next(built for built in _BUILT if built == "actor" or _has_megatron(source, built))


#: The models of one process in the order in which the engine workers build them.
_BUILT: tuple[Role, ...] = ("critic", "ref", "actor")


def _has_megatron(source: ReleaseSettings, role: Role) -> bool:
    """Whether a job on engine workers has a critic, or a reference of its own, under Megatron."""
    if role == "critic":
        there = uses_critic(source.settings)
    else:
        there = uses_reference(source) and not has_adapters(source)
    return there and read_backend(source, role) is Backend.MEGATRON


def names_attention(settings: Settings, section: str) -> bool:
    """Whether anything may ask for another attention than releases do: a key of a model, or a copy's code."""
    key = f"{section}.override_config.attn_implementation"
    return settings.has_statement is not None or settings.get(key) is not None


def switches_of(role: Role) -> str:
    """The first word of the meanings of a role's model switches."""
    return "critic" if role == "critic" else "model"


def bucket_tokens(source: ReleaseSettings, section: str) -> int:
    """Tokens to a multiple of which an engine pads a packed micro-batch; 1 where it pads none."""
    bucket = source.integer(f"{section}.pad_to_length_bucket", default=1)
    return bucket if source.flag(f"{section}.pad_to_length") else 1


def read_backend(source: ReleaseSettings, role: Role) -> Backend:
    """How a role shards its model; the legacy workers build the reference with the actor's strategy.

    The engine workers that 0.7 has beside them go by the engine's own key, and 0.8.0 copies the role's over
    it. Source: verl 0.7.1 ``workers/engine_workers.py:116``, 0.8.0 ``workers/config/actor.py:314-317``.

    Raises:
        UnsupportedError: the strategy is one that the release does not have.
    """
    meaning = f"{_configured_role(source, role)}.strategy"
    strategy = source.choice(meaning, (*_BACKENDS, *UNMODELLED), default=_class_default(source))
    if strategy in UNMODELLED:
        return Backend.NOT_MODELLED
    if not source.since("0.4.0") and strategy != "fsdp":
        raise _before_0_4(source, meaning, strategy)
    backend = _BACKENDS[strategy]
    engine = _engine_strategy(source, role)
    if backend is not Backend.MEGATRON and engine is not None:
        return _BACKENDS[source.choice(engine, ("fsdp", "fsdp2"), default="fsdp")]
    return backend


def _class_default(source: ReleaseSettings) -> str:
    """The strategy where a configuration has no key for it: fine-tuning's engine names its class.

    Source: verl 0.9.1 ``workers/config/engine.py`` (``strategy``).
    """
    named = source.program is Program.SFT_ENGINE and source.settings.text("engine._target_")
    return "megatron" if named and named.endswith(".McoreEngineConfig") else "fsdp"


def _engine_strategy(source: ReleaseSettings, role: Role) -> str | None:
    """The meaning of the engine's own strategy, where a release goes by it."""
    meaning = f"{_configured_role(source, role)}.engine_strategy"
    return meaning if role != "reward" and source.value(meaning) is not None else None


def _before_0_4(source: ReleaseSettings, meaning: str, strategy: str) -> UnsupportedError:
    """What stops a strategy before 0.4: FSDP2 is not there, and Megatron is another one.

    Source: verl 0.3.0.post1 ``trainer/main_ppo.py`` (the two strategies), ``workers/megatron_workers.py``
    (models of verl's own, ``AllGatherPPModel`` with the weights of every stage, vLLM 0.6.3 at the latest).
    """
    reason = _("verl {version} has no {strategy}").format(version=source.version, strategy=strategy)
    if strategy == "megatron":
        reason = _("the Megatron workers of verl {version} are other ones and not modelled").format(
            version=source.version
        )
    error = source.error(meaning, reason)
    hint = _("fsdp is; Megatron and FSDP2 are from 0.4.0 on")
    return UnsupportedError(error.message, key=error.key, location=error.location, hint=hint)


def _configured_role(source: ReleaseSettings, role: Role) -> Role:
    return "actor" if role == "ref" and not source.engine_workers else role


def read_unmodelled(context: EngineContext) -> Engine:
    """An engine of which no more is known than who it is."""
    strategy = context.source.text(f"{context.configured_role}.strategy", default="")
    return Engine(
        backend=Backend.NOT_MODELLED,
        library=UNMODELLED[strategy].title,
        parallel=Parallelism(gpus=context.gpus),
        stored_dtype=DType.BFLOAT16,
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.BFLOAT16,
        optimizer_dtype=DType.BFLOAT16,
        checkpointing=Checkpointing.NONE,
        packed=True,
    )


def _backend(context: EngineContext) -> Backend:
    return context.backend  # known before anything else of the engine, by read_backend()


def _set_backend(context: EngineContext, engine: Engine) -> Assignments:
    role, backend = context.configured_role, engine.backend
    if context.source.is_veomni(context.role):
        if backend is not Backend.FSDP2:
            raise ValueError("VeOmni shards by FSDP2 alone")
        return ((f"{role}.strategy", "veomni"),)
    own = None if backend is Backend.MEGATRON else _engine_strategy(context.source, context.role)
    return ((f"{role}.strategy", backend.value), *(() if own is None else ((own, backend.value),)))


BACKEND: Ruled[EngineContext] = Ruled("backend", _backend, _set_backend)
