"""Reads the low-rank adapters of an engine."""

from tuner.language import _
from tuner.models.adapters import ALL_LINEAR, count_adapters, megatron_adapter_parameters
from tuner.trainers.verl.fields.role import EngineContext, switches_of
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.source import ReleaseSettings, Role
from tuner.workload import Backend, Lora

_MEGATRON_LINEARS = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")


def lora_rank(source: ReleaseSettings, role: Role, backend: Backend) -> int:
    """Rank of the adapters, 0 without.

    Raises:
        InputError: an adapter is loaded from a path and nothing says its rank.
    """
    section = switches_of(role)
    if backend is Backend.MEGATRON:
        return source.integer(f"{section}.megatron_lora_rank", default=0, minimum=0)
    rank = source.integer(f"{section}.lora_rank", default=0, minimum=0)
    adapter = None if role == "critic" or source.engine_workers else source.value("model.lora_adapter")
    if rank == 0 and adapter is not None:
        raise source.error(
            "model.lora_adapter",
            _("the rank of this adapter is not in the configuration"),
            hint=_("set {key} to it").format(key=source.key("model.lora_rank")),
        )
    return rank


def fsdp_lora(context: EngineContext) -> Lora | None:
    """Adapters of a model under FSDP, None without."""
    source, section = context.source, context.switches
    rank = lora_rank(source, context.role, Backend.FSDP)
    if rank == 0:
        return None
    counts = count_adapters(
        context.model,
        rank=rank,
        target=_names(source, f"{section}.target_modules", default=ALL_LINEAR),
        exclude=_names(source, f"{section}.exclude_modules", default=()),
        experts=not source.since("0.9.0"),  # which needs transformers 5
    )
    merged = source.engine_workers and context.role == "actor" and source.flag("model.lora_merge")
    return Lora(
        rank=rank,
        parameters=counts.parameters,
        merged_for_rollout=merged,
        stays_float32=not casts_adapters(source),
        matrices=counts.matrices,
    )


def casts_adapters(source: ReleaseSettings) -> bool:
    """Whether verl casts adapters to the dtype of the base, which peft makes in float32.

    Source: verl 0.9.0 ``workers/engine/fsdp/transformer_impl.py:351-362``; before, ``get_peft_model`` alone,
    whose ``autocast_adapter_dtype`` is true by default. The trainer of fine-tuning casts since 0.5.0.
    """
    return source.since("0.5.0" if source.program is Program.SFT else "0.9.0")


def megatron_lora(context: EngineContext) -> Lora | None:
    """Adapters of a model under Megatron, None without."""
    source, section = context.source, context.switches
    rank = lora_rank(source, context.role, Backend.MEGATRON)
    if rank == 0:
        return None
    target = _names(source, f"{section}.megatron_target_modules", default=_MEGATRON_LINEARS)
    parameters = megatron_adapter_parameters(context.model, rank=rank, target=target)
    # 0.7.0 exports weights with the adapters in them, whatever the switch of later releases says
    merged = context.role == "actor" and (source.flag("model.lora_merge") or not source.since("0.7.1"))
    return Lora(rank=rank, parameters=parameters, merged_for_rollout=merged)


def _names(source: ReleaseSettings, meaning: str, *, default: str | tuple[str, ...]) -> str | tuple[str, ...]:
    names = source.names(meaning)
    return default if names is None or names == () else names
