"""Fields of an engine under VeOmni: FSDP2 with experts divided among ranks, and with keys of its own.

VeOmni stores weights in float32 under its mixed precision and in bfloat16 without it. Its units are the
decoder's layers and a root with all the rest, which is not resharded after a forward pass; the ranks that
share a sequence shard the weights together with those that do not. Experts are dealt out over the ranks of
``expert_parallel_size`` first and sharded over the others, so that a layer is gathered with its rank's
experts alone. Parameters leave for the host by ``Module.cpu()``.

Source: verl 0.7.1 to 0.9.1 ``workers/engine/veomni/transformer_impl.py`` and ``utils.py``; VeOmni 0.1.12
``distributed/torch_parallelize.py`` (``parallelize_model_fsdp2``), ``distributed/parallel_state.py``,
``arguments/arguments_types.py`` (``MixedPrecisionConfig``).
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.trainers.fields import COUNT, Assignments, Field, Plain, Ruled
from tuner.trainers.verl.fields.adapters import lora_rank
from tuner.trainers.verl.fields.fsdp import FSDP, read_fsdp
from tuner.trainers.verl.fields.role import EngineContext
from tuner.trainers.verl.source import ROLES, Role
from tuner.workload import Backend, Checkpointing, Engine, HostCopy

_LIGER = "liger_kernel"
_FUSED = ("rms_norm_implementation", "swiglu_mlp_implementation", "rotary_pos_emb_implementation")
#: A reference has neither a backward pass nor an optimizer, but is offloaded by its own keys.
_FROZEN: Mapping[str, Any] = {
    "optimizer_offload": False,
    "activation_offload": False,
    "checkpointing": Checkpointing.NONE,
}


def read_veomni(context: EngineContext) -> Engine:
    """An engine under VeOmni.

    Raises:
        InputError: a value has the wrong type, or sizes do not divide one another.
        UnsupportedError: adapters are asked for, which this engine does not train, or the release has the
            engine without what the job takes.
    """
    source, role = context.source, context.role
    _expect_engine(context)
    if role != "ref" and lora_rank(source, role, Backend.FSDP2) > 0:
        error = source.error(
            "model.lora_rank" if role == "actor" else "critic.lora_rank",
            _("the VeOmni engine of verl {version} trains no adapters").format(version=source.version),
        )
        raise UnsupportedError(
            error.message, key=error.key, location=error.location, hint=_("fsdp, fsdp2 and megatron do")
        )
    engine = read_fsdp(context, VEOMNI[role], _FROZEN if role == "ref" else {})
    _expect_divisible(context, engine)
    return replace(
        engine,
        compute_dtype=DType.BFLOAT16,
        keeps_root=True,
        frees_root=engine.parallel.shard > engine.parallel.ulysses,
        separate_embedding_units=False,
        whole_root=True,
        title="veomni (fsdp2)",
        prefetch_effective=engine.parallel.expert > 1,  # VeOmni asks for it with experts apart only
        keeps_inputs=False,
        loops_experts=source.text(f"{role}.veomni.moe_implementation", default="fused") == "eager",
        deferred_gradient_sync=False,
        layers_fusable=True,
        optimizer_fusable=False,  # its own builder has an argument for it that verl's trainer does not set
        host_copy=HostCopy.PAGEABLE,
        second=None,
    )


def _expect_engine(context: EngineContext) -> None:
    """Refuse what 0.7.1 has no VeOmni engine for: its older workers, and a critic.

    Source: verl 0.7.1 ``trainer/main_ppo.py:165-171`` (``NotImplementedError``),
    ``workers/engine/veomni/transformer_impl.py:578-579`` (an engine with an LM head alone); 0.8.0 line 1034
    there (``VeOmniEngineWithValueHead``).
    """
    source = context.source
    if not source.engine_workers:
        raise UnsupportedError(
            _("verl {version} runs VeOmni by its newer workers alone").format(version=source.version),
            key="trainer.use_legacy_worker_impl",
            hint=_("give trainer.use_legacy_worker_impl=disable"),
        )
    if context.role == "critic" and not source.since("0.8.0"):
        raise UnsupportedError(
            _("verl 0.7.1 has no critic for VeOmni"),
            key="critic.strategy",
            hint=_("give --verl-version 0.8.0 or newer"),
        )


def _expect_divisible(context: EngineContext, engine: Engine) -> None:
    """Refuse sizes that VeOmni's meshes cannot have."""
    parallel, role = engine.parallel, context.role
    if parallel.shard % parallel.expert:
        raise context.source.error(
            f"{role}.veomni.expert_parallel_size",
            _(
                "{ranks} ranks that share the experts do not divide {shard} ranks that share the weights"
            ).format(ranks=parallel.expert, shard=parallel.shard),
        )


# -- what differs from FSDP's fields -----------------------------------------------------------


def _mixes(context: EngineContext) -> bool:
    return context.source.flag(f"{context.role}.veomni.mixed_precision", default=True)


def _dtype(context: EngineContext) -> DType:
    return DType.FLOAT32 if _mixes(context) else DType.BFLOAT16


def _set_stored(context: EngineContext, engine: Engine) -> Assignments:
    return ((f"{context.role}.veomni.mixed_precision", engine.stored_dtype is DType.FLOAT32),)


def _set_reduced(context: EngineContext, engine: Engine) -> Assignments:
    return ((f"{context.role}.veomni.mixed_precision", engine.reduce_dtype is DType.FLOAT32),)


def _ulysses(context: EngineContext) -> int:
    return context.source.integer(f"{context.role}.ulysses", default=1)


def _set_ulysses(context: EngineContext, engine: Engine) -> Assignments:
    return ((f"{context.role}.ulysses", engine.parallel.ulysses),)


def _shard(context: EngineContext) -> int:
    """Ranks that share the weights: those of a data parallel group, times those that share a sequence."""
    meaning = f"{context.role}.fsdp.fsdp_size"
    size, ulysses = context.source.integer(meaning, default=-1, minimum=-1), _ulysses(context)
    data = max(1, context.gpus // ulysses)
    if size < 0 or size >= data:
        return data * ulysses
    if size == 0 or data % size:
        raise context.source.error(
            meaning,
            _("{size} does not divide {data} ranks that see different sequences").format(
                size=size, data=data
            ),
        )
    return size * ulysses


def _set_shard(context: EngineContext, engine: Engine) -> Assignments:
    parallel = engine.parallel
    whole = parallel.shard >= parallel.data * parallel.ulysses
    size = -1 if whole else max(1, parallel.shard // parallel.ulysses)
    return ((f"{context.role}.fsdp.fsdp_size", size),)


def _fuses_layers(context: EngineContext) -> bool:
    """Whether Liger computes norms, rotary embeddings and the MLP; some of them alone count as none."""
    words = {context.source.text(f"{context.role}.veomni.{name}", default="eager") for name in _FUSED}
    return words == {_LIGER}


def _set_fused_layers(context: EngineContext, engine: Engine) -> Assignments:
    word = _LIGER if engine.fused_layers else "eager"
    return tuple((f"{context.role}.veomni.{name}", word) for name in _FUSED)


def _fields(role: Role) -> tuple[Field[EngineContext], ...]:
    changed: dict[str, Field[EngineContext]] = {
        "stored_dtype": Ruled("stored_dtype", _dtype, _set_stored),
        "reduce_dtype": Ruled("reduce_dtype", _dtype, _set_reduced),
        "parallel.shard": Ruled("parallel.shard", _shard, _set_shard),
        "parallel.ulysses": Ruled("parallel.ulysses", _ulysses, _set_ulysses),
        "fused_layers": Ruled("fused_layers", _fuses_layers, _set_fused_layers),
    }
    left_out = {"attention", "deferred_gradient_sync", "frozen_tower", *(_FROZEN if role == "ref" else ())}
    # the actor's table has what the reference's keys decide under VeOmni as well
    table = FSDP["actor" if role == "ref" else role]
    own = tuple(
        _of_role(changed.get(field.path, field), role) for field in table if field.path not in left_out
    )
    return (*own, Plain("parallel.expert", f"{role}.veomni.expert_parallel_size", COUNT, 1))


def _of_role(field: Field[EngineContext], role: Role) -> Field[EngineContext]:
    """A field of the actor's table with the keys of a role."""
    if isinstance(field, Plain) and isinstance(field.meaning, str):
        return replace(field, meaning=field.meaning.replace("actor.", f"{role}.", 1))
    return field


VEOMNI = {role: _fields(role) for role in ROLES}
