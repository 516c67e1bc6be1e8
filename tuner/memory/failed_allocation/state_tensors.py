"""Tensors of weights, gradients and optimizer states, whose size does not go with tokens."""

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.language import N_, _
from tuner.memory.failed_allocation.tensor import Factor, Tensor
from tuner.memory.fsdp import units
from tuner.memory.ledger.terms import Item
from tuner.memory.megatron.grid import local_parameters
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, Phase, Workload


def unit_tensors(model: ModelShape, engine: Engine, role: str) -> tuple[Tensor, ...]:
    """Weights, gradients and shards that FSDP allocates in one piece, or Megatron's flat buffers."""
    if engine.backend is Backend.MEGATRON:
        return _megatron_buffers(model, engine, role)
    layer: Factor = (model.largest_layer_parameters, _("parameters of a decoder layer"))
    head: Factor = (units.head_unit_parameters(model, engine), _("parameters of the head's unit"))
    first: Factor = (units.first_unit_parameters(model, engine), _("parameters of the first unit"))
    compute, reduce = engine.compute_dtype.bytes, engine.reduce_dtype.bytes
    tensors = []
    for kind, unit in dict.fromkeys([("layer", layer), ("head_unit", head), ("first_unit", first)]):
        gathered = Tensor(
            name=f"{role}_{kind}_gathered",
            kinds=(_("a whole unit of the {role}'s weights").format(role=_(role)), _("its gradient")),
            made_by=_("FSDP, which gathers the {role}'s weights unit by unit").format(role=_(role)),
            item=Item.UNSHARDED,
            factors=(unit,),
            dtype_bytes=compute,
        )
        tensors.append(gathered)
        if reduce != compute:
            by = _("FSDP, before it sums the {role}'s gradients over the ranks").format(role=_(role))
            tensors.append(
                replace(
                    gathered,
                    name=f"{role}_{kind}_reduced",
                    kinds=("a unit's gradient in the reduce dtype",),
                    made_by=by,
                    dtype_bytes=reduce,
                )
            )
        tensors += _shards(unit, engine, f"{role}_{kind}", role)
    matrix: tuple[Factor, ...] = ((model.vocab, _("vocabulary entries")), (model.hidden, _("hidden entries")))
    for dtype_bytes in dict.fromkeys((compute, engine.stored_dtype.bytes)):
        tensors.append(
            Tensor(
                name=f"{role}_embedding_{dtype_bytes}",
                kinds=(_("the embedding or output projection, whole, or its gradient"),),
                made_by=_("the head's backward pass, and the weight sync"),
                item=Item.UNSHARDED,
                factors=matrix,
                dtype_bytes=dtype_bytes,
            )
        )
    return tuple(tensors)


def _shards(unit: Factor, engine: Engine, name: str, role: str) -> list[Tensor]:
    """One rank's part of a unit; nothing of it is on the card under a CPU offload policy."""
    if engine.streamed_offload:
        return []
    stored, moment = engine.stored_dtype.bytes, engine.optimizer_dtype.bytes
    return [
        Tensor(
            name=f"{name}_shard_{dtype_bytes}",
            kinds=(
                _("a shard of the {role}'s weights").format(role=_(role)),
                _("of its gradient"),
                _("of a moment of AdamW"),
            ),
            made_by=_("the {role}'s backward pass, optimizer step, or loading of offloaded states").format(
                role=_(role)
            ),
            item=Item.OPTIMIZER,
            factors=(unit,),
            dtype_bytes=dtype_bytes,
            ranks=engine.parallel.shard,
        )
        for dtype_bytes in dict.fromkeys((stored, moment))
    ]


def _megatron_buffers(model: ModelShape, engine: Engine, role: str) -> tuple[Tensor, ...]:
    local = local_parameters(model, engine)
    kinds = ((N_("dense"), local.dense), (N_("expert"), local.expert))
    sizes = (
        (N_("weights"), engine.compute_dtype.bytes, Item.PARAMETERS),
        (N_("gradients"), engine.reduce_dtype.bytes, Item.GRADIENTS),
    )
    return tuple(
        Tensor(
            name=f"{role}_{kind}_{content}",
            kinds=(_("the flat buffer of {kind} {what}").format(kind=_(kind), what=_(content)),),
            made_by=_("Megatron's data-parallel wrapper of the {role}").format(role=_(role)),
            item=item,
            factors=((count, _("{kind} parameters of this rank").format(kind=_(kind))),),
            dtype_bytes=dtype_bytes,
        )
        for kind, count in kinds
        if count
        for content, dtype_bytes, item in sizes
    )


def weight_tensors(model: ModelShape) -> tuple[Tensor, ...]:
    """The weights of a model that are allocated in one piece, whatever engine holds them."""
    pieces: tuple[tuple[str, tuple[Factor, ...]], ...] = (
        (N_("embedding"), ((model.vocab, _("vocabulary entries")), (model.hidden, _("hidden entries")))),
        (N_("layer"), ((model.largest_layer_parameters, _("parameters of a decoder layer")),)),
        (N_("model"), ((model.parameters, _("parameters")),)),
    )
    return tuple(
        Tensor(
            name=f"{name}_{dtype.value}",
            kinds=(
                _("the weights of one {name} in {dtype}, or their gradient").format(
                    name=_(name), dtype=dtype.value
                ),
            ),
            made_by=_("loading, gathering or updating the weights"),
            item=Item.UNSHARDED,
            factors=factors,
            dtype_bytes=dtype.bytes,
        )
        for name, factors in pieces
        for dtype in (DType.BFLOAT16, DType.FLOAT32)
    )


def sync_tensors(workload: Workload) -> tuple[Tensor, ...]:
    """What carrying the weights and sampling from them allocate in one piece."""
    rollout = workload.generator
    sampled = min(rollout.max_sequences, rollout.step_tokens)
    bucket = Tensor(
        name="sync_bucket",
        kinds=(_("a bucket of weights on their way to the rollout engine"),),
        made_by=_("the weight sync"),
        item=Item.SYNC,
        factors=((workload.weight_sync.bucket_bytes, _("bytes of the bucket")),),
        dtype_bytes=1,
        phases=(Phase.UPDATE_WEIGHTS,),
    )
    logits = Tensor(
        name="sampler_logits",
        kinds=(_("logits of all sequences that are sampled at once"),),
        made_by=_("the rollout engine's sampler, in float32"),
        item=Item.ENGINE,
        factors=((sampled, _("sequences")), (workload.model.vocab, _("vocabulary entries"))),
        dtype_bytes=DType.FLOAT32.bytes,
        phases=(Phase.ROLLOUT,),
    )
    return (bucket, logits) if workload.weight_sync.bucket_bytes else (logits,)
