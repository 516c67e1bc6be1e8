"""Reads the trainer engines: how verl shards, stores and offloads each model."""

from tuner.architectures import find_architecture
from tuner.dtypes import DType
from tuner.errors import UnsupportedError
from tuner.trainers.verl.read_lora import fsdp_lora, lora_rank
from tuner.trainers.verl.read_megatron import read_megatron
from tuner.trainers.verl.source import EngineSource, Role, Source
from tuner.workload import Backend, Checkpointing, Engine, Parallelism

_BACKENDS = {
    "fsdp": Backend.FSDP,
    "fsdp2": Backend.FSDP2,
    "fsdp_turbo": Backend.FSDP2,  # a planner that places fully_shard; policies are FSDP2's
    "megatron": Backend.MEGATRON,
}
_UNMODELLED = ("veomni", "torchtitan", "automodel", "mindspeed", "mindspeed_megatron")


def read_engine(given: EngineSource) -> Engine:
    """The engine of one role.

    Raises:
        InputError: a value has the wrong type, or the parallel sizes exceed the GPUs.
        UnsupportedError: the strategy is one that is not modelled.
    """
    backend = read_backend(given.source, given.role)
    if backend is Backend.MEGATRON:
        return read_megatron(given)
    return _fsdp(given, backend)


def read_backend(source: Source, role: Role) -> Backend:
    """How a role shards its model.

    The legacy workers build the reference with the actor's strategy; a critic without one follows too.
    """
    meaning = "actor.strategy" if role == "ref" and not source.engine_workers else f"{role}.strategy"
    strategy = source.choice(meaning, (*_BACKENDS, *_UNMODELLED), default="fsdp")
    if strategy in _UNMODELLED:
        error = source.error(meaning, f"the {strategy} engine is not modelled")
        raise UnsupportedError(
            error.message, key=error.key, location=error.location, hint="fsdp, fsdp2 and megatron are"
        )
    return _BACKENDS[strategy]


# -- FSDP ------------------------------------------------------------------------------------


def _fsdp(given: EngineSource, backend: Backend) -> Engine:
    source, role, section = given.source, given.role, given.model_section
    stored = _stored_dtype(source, role)
    streamed = role == "ref" or (
        backend is Backend.FSDP2 and source.flag(f"{role}.fsdp.offload_policy")
    )  # the reference is offloaded whatever its keys say
    compute = source.dtype(f"{role}.fsdp.mixed_precision.param_dtype", default=_default_compute(source, role))
    return Engine(
        backend=backend,
        parallel=_fsdp_parallel(given),
        stored_dtype=stored,
        compute_dtype=compute,
        reduce_dtype=source.dtype(f"{role}.fsdp.mixed_precision.reduce_dtype", default=DType.FLOAT32),
        optimizer_dtype=_moment_dtype(given, stored),
        checkpointing=_fsdp_checkpointing(source, role, section),
        packed=source.flag(f"{section}.packed", default=source.engine_workers),
        activation_offload=role != "ref" and source.flag(f"{section}.activation_offload"),
        param_offload=not streamed and source.flag(f"{role}.fsdp.param_offload"),
        optimizer_offload=not streamed and source.flag(f"{role}.fsdp.optimizer_offload"),
        streamed_offload=streamed,
        reshard_after_forward=_reshards(source, role, backend),
        keeps_root=backend is Backend.FSDP2 and not source.since("0.6.0"),  # released for torch 2.6
        frees_root=_frees_root(given, backend),
        forward_prefetch=source.flag(_prefetch_meaning(source, role)),
        prefetch_effective=backend is Backend.FSDP or source.since("0.8.0"),
        deferred_gradient_sync=_defers(source, role),
        separate_embedding_units=(
            backend is Backend.FSDP2 and not given.model.tied_embeddings and source.since("0.7.1")
        ),
        fused_layers=source.flag(f"{section}.liger")
        and find_architecture(given.model.architecture).liger_layers,
        lora=None if role == "ref" else fsdp_lora(given),
    )


def _default_compute(source: Source, role: Role) -> DType:
    # 0.6.1 and 0.7.1 take fsdp_config.dtype where mixed_precision is absent; only actor and reference do
    if role == "critic":
        return DType.BFLOAT16
    return source.dtype(f"{role}.fsdp.dtype", default=DType.BFLOAT16)


def _stored_dtype(source: Source, role: Role) -> DType:
    default = DType.BFLOAT16 if role == "ref" else DType.FLOAT32
    return source.dtype(f"{role}.fsdp.model_dtype", default=default)


def _moment_dtype(given: EngineSource, stored: DType) -> DType:
    """AdamW's moments have the dtype of what it trains: the sharded weights, or adapters.

    peft makes adapters in float32; since 0.9.1 verl casts them to the dtype of the base.
    """
    source, role = given.source, given.role
    if role == "ref":
        return DType.FLOAT32  # it has no optimizer
    adapters = lora_rank(source, role, Backend.FSDP) > 0
    return DType.FLOAT32 if adapters and not source.since("0.9.1") else stored


def _fsdp_checkpointing(source: Source, role: Role, section: str) -> Checkpointing:
    enabled = source.flag(f"{section}.gradient_checkpointing", default=True)
    return (
        Checkpointing.FULL if enabled and role != "ref" else Checkpointing.NONE
    )  # a reference has no backward


def _fsdp_size(given: EngineSource) -> int:
    source = given.source
    role: Role = "actor" if given.role == "ref" and not source.engine_workers else given.role
    meaning = f"{role}.fsdp.fsdp_size"
    size = source.integer(meaning, default=-1, minimum=-1)
    if size == 0:
        raise source.error(meaning, "expected -1 or a whole number >= 1, got 0")
    return size


def _fsdp_parallel(given: EngineSource) -> Parallelism:
    source, gpus, size = given.source, given.gpus, _fsdp_size(given)
    ulysses = _ulysses(source, given.role)
    if ulysses > gpus:
        raise source.error(
            f"{given.role}.ulysses", f"{ulysses} ranks share a sequence, but the job has {gpus} GPUs"
        )
    return Parallelism(gpus=gpus, shard=gpus if size < 0 else min(size, gpus), ulysses=ulysses)


def _ulysses(source: Source, role: Role) -> int:
    size = source.integer(f"{role}.ulysses", default=1)
    if role != "critic":  # the deprecated key of actor and reference wins when it is above 1
        old = source.integer(f"{role}.old_ulysses", default=1)
        return old if old > 1 else size
    return size


def _reshards(source: Source, role: Role, backend: Backend) -> bool:
    """FSDP1 heeds the switch since 0.7.1, there only for actor and reference."""
    if backend is Backend.FSDP and not (
        source.since("0.7.1") and (source.engine_workers or role != "critic")
    ):
        return True
    return source.flag(f"{role}.fsdp.reshard_after_forward", default=True)


def _frees_root(given: EngineSource, backend: Backend) -> bool:
    """Whether verl reshards the root unit after a forward-only pass.

    The engines do where ``fsdp_size`` is above 1, which its default of -1 is not. The legacy workers
    do for FSDP1's actor and reference, and since 0.6 for FSDP2's reference.
    """
    source, role = given.source, given.role
    if source.engine_workers:
        return _fsdp_size(given) > 1
    return role != "critic" if backend is Backend.FSDP else role == "ref" and source.since("0.6.0")


def _prefetch_meaning(source: Source, role: Role) -> str:
    # up to 0.5 the reference is built with the actor's switch
    shared = role == "ref" and not source.since("0.6.0")
    return f"{'actor' if shared else role}.fsdp.forward_prefetch"


def _defers(source: Source, role: Role) -> bool:
    """Deferred gradient synchronisation: 0.9.0 always, 0.9.1 on request."""
    if role == "ref" or not source.since("0.9.0"):
        return False
    return source.flag(f"{role}.fsdp.use_no_sync_for_gradient_accumulation", default=True)
