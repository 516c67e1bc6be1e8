"""Reads the trainer engines: how verl shards, stores and offloads each model."""

from tuner.model_shape import ModelShape
from tuner.trainers.fields import (
    Field,
)
from tuner.trainers.verl.fields.fsdp import fsdp_fields, read_fsdp, shares_prefetch
from tuner.trainers.verl.fields.megatron import MEGATRON, read_megatron
from tuner.trainers.verl.fields.role import EngineContext, read_backend, read_unmodelled
from tuner.trainers.verl.source import ReleaseSettings, Role
from tuner.workload import Backend, Engine


def read_engine(source: ReleaseSettings, role: Role, model: ModelShape, gpus: int) -> Engine:
    """The engine of one role.

    Raises:
        InputError: a value has the wrong type, or the parallel sizes exceed the GPUs.
        UnsupportedError: the strategy is one that the release does not have.
    """
    backend = read_backend(source, role)
    context = EngineContext(source=source, role=role, backend=backend, model=model, gpus=gpus)
    if backend is Backend.MEGATRON:
        return read_megatron(context)
    if backend is Backend.NOT_MODELLED:
        return read_unmodelled(context)
    if source.is_veomni(role):
        from tuner.trainers.verl.fields.veomni import read_veomni  # few jobs run that engine

        return read_veomni(context)
    return read_fsdp(context)


def engine_fields(source: ReleaseSettings, role: Role, backend: Backend) -> tuple[Field[EngineContext], ...]:
    """The table of a role's engine."""
    if backend is Backend.MEGATRON:
        return MEGATRON[role]
    if backend is Backend.NOT_MODELLED:
        return ()
    if source.is_veomni(role):
        from tuner.trainers.verl.fields.veomni import VEOMNI

        return VEOMNI[role]
    return fsdp_fields(source, role)


def following(context: EngineContext) -> tuple[str, ...]:
    """What the release makes of other fields, so that a proposal need not say it."""
    facts = (
        "separate_embedding_units",
        "prefetch_effective",
        "layers_fusable",
        "packable",  # older libraries tell packed sequences apart by FlashAttention alone
        "reads_positions",
        "attention_settable",
        "flash_brought",
        "packs_by_flash",
        "bare_single_rows",
        "dense_rows",
        "torch",
        "optimizer_dtype",
        "main_weight_bytes",  # with a share of the optimizer on the host
        "second",
        "host_copy",
        "whole_root",
        "title",
    )
    return (*facts, "forward_prefetch") if shares_prefetch(context) else facts
