r"""What carrying new weights to the rollout engine allocates, on both sides.

Symbols: :math:`N` parameters, :math:`W` ranks that share one copy, :math:`U_r` and :math:`U_l` parameters
of FSDP's root unit and of its largest layer, :math:`E` the largest tensor, :math:`B` a bucket,
:math:`b_s` bytes of the stored dtype.
"""

from tuner.memory.fsdp.units import root_parameters
from tuner.memory.ledger.terms import Item, Moment, Term
from tuner.memory.model_states import shard, stored_parameters
from tuner.memory.residents import States
from tuner.memory.rollout.capacity import RolloutMemory
from tuner.memory.rollout.terms import waking_terms
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, WeightSync, Workload


def largest_tensor_parameters(model: ModelShape) -> int:
    r"""The largest tensor of a model, :math:`E`.

    .. math:: E = \max(V H, 2 n_x H I_e)

    The embedding, or gate and up projections of a layer's :math:`n_x` experts of width :math:`I_e`,
    which are one tensor in current transformers.
    """
    return max(model.embedding_parameters, model.expert_parameters * 2 // 3)


def _layer_tensor_parameters(model: ModelShape) -> int:
    return max(model.hidden * model.intermediate, model.expert_parameters * 2 // 3)


def gathered_tensor_bytes(model: ModelShape, engine: Engine, sync: WeightSync) -> int:
    r"""One tensor on its way, whole.

    .. math:: b_s E \;\text{(sent as stored)}, \qquad (b_s + b_t) E \;\text{(cast first)}

    FSDP gathers a tensor in the dtype it is stored in. Releases that cast it before it travels hold
    both copies for a moment. Megatron's converters gather the parts of all tensor-parallel ranks
    and then join them, which is the tensor twice.

    Source: verl 0.9.1 and 0.8.0 ``workers/engine/fsdp/transformer_impl.py`` (``get_per_tensor_param``),
    verl 0.5.0 ``utils/megatron_utils.py`` (``per_tensor_generator``).
    """
    return tensor_term(model, engine, sync).bytes


def tensor_term(model: ModelShape, engine: Engine, sync: WeightSync) -> Term:
    """One gathered tensor, see :func:`gathered_tensor_bytes`."""
    count, size = largest_tensor_parameters(model), engine.stored_dtype.bytes
    symbols: tuple[tuple[str, float], ...] = (("b_s", size), ("E", count))
    formula, copies = "b_s E", size
    if engine.backend is Backend.MEGATRON:
        size = engine.compute_dtype.bytes
        formula, symbols, copies = "b_c E", (("b_c", size), ("E", count)), size
        if engine.parallel.tensor > 1 or engine.parallel.expert > 1:
            formula, copies = "2 b_c E", 2 * size
    elif sync.sent_dtype is not None and sync.sent_dtype is not engine.stored_dtype:
        sent = sync.sent_dtype.bytes
        formula, symbols, copies = "(b_s + b_t) E", (*symbols, ("b_t", sent)), size + sent
    return Term(
        item=Item.SYNC,
        name="sync_tensor",
        bytes=copies * count,
        formula=formula,
        symbols=symbols,
        source="memory.weight_sync.gathered_tensor_bytes",
    )


def bucket_term(sync: WeightSync) -> Term:
    r"""Buffers that tensors are copied into.

    .. math:: (n_t + n_e) \, B

    The trainer fills :math:`n_t` buckets: one where the engine shares the card and maps it through
    CUDA IPC, two where it is sent over the network while the next is filled. An engine that
    clones what it receives holds :math:`n_e = 1` more. SGLang has no such buffer, but gets as
    many whole tensors at once as fill one.

    Source: verl 0.7.1, 0.8.0 and 0.9.1 ``workers/rollout/vllm_rollout/bucketed_weight_transfer.py``,
    ``checkpoint_engine/nccl_checkpoint_engine.py``; SGLang ``weight_sync/utils.py``.
    """
    return Term(
        item=Item.SYNC,
        name="sync_buckets",
        bytes=(sync.buckets + sync.engine_buckets) * sync.bucket_bytes,
        formula="(n_t + n_e) B",
        symbols=(("n_t", sync.buckets), ("n_e", sync.engine_buckets), ("B", sync.bucket_bytes)),
        source="memory.weight_sync.bucket_term",
    )


def copied_shards_term(model: ModelShape, engine: Engine) -> Term:
    r"""FSDP1's state dict holds a copy of every shard.

    .. math:: b_s \lceil N / W \rceil

    The flat weights of a unit are gathered, and each rank copies its part of every tensor out of them.
    FSDP2's state dict only refers to the shards there are.

    Source: torch ``distributed/fsdp/_state_dict_utils.py`` (``_sharded_post_state_dict_hook``),
    ``_shard_utils.py`` (``_create_chunk_dtensor``).
    """
    count, size = stored_parameters(model, engine), engine.stored_dtype.bytes
    return Term(
        item=Item.SYNC,
        name="sync_shards",
        bytes=shard(count, engine) * size,
        formula="b_s ceil(N / W)",
        symbols=(("b_s", size), ("N", count), ("W", engine.parallel.shard)),
        source="memory.weight_sync.copied_shards_term",
    )


def unsharded_units_term(model: ModelShape, engine: Engine) -> Term:
    r"""Units that FSDP1 gathers for its state dict, in full precision.

    .. math:: b_s \bigl( U_r + \max(U_l + E_l, \; V H) \bigr)

    Each unit is gathered while its own part of the state dict is made, the root all the while; every
    tensor is copied whole before its shard is cut out (:math:`E_l` the largest tensor of a layer).

    Source: torch ``distributed/fsdp/_state_dict_utils.py`` (``_common_unshard_pre_state_dict_hook``),
    ``_flat_param.py`` (``_force_full_precision``).
    """
    size, root = engine.stored_dtype.bytes, root_parameters(model, engine)
    layer, inner = model.largest_layer_parameters, _layer_tensor_parameters(model)
    embedding = model.embedding_parameters
    return Term(
        item=Item.SYNC,
        name="sync_units",
        bytes=size * (root + max(layer + inner, embedding)),
        formula="b_s (U_r + max(U_l + E_l, E_v))",
        symbols=(("b_s", size), ("U_r", root), ("U_l", layer), ("E_l", inner), ("E_v", embedding)),
        source="memory.weight_sync.unsharded_units_term",
    )


def summoned_term(model: ModelShape, engine: Engine, sync: WeightSync) -> Term:
    r"""Gathering LoRA adapters, which travel without the base model; also a whole state dict.

    .. math:: b_s U_l \;\text{(layer by layer)} \quad\text{or}\quad b_s N

    FSDP can only summon whole units, so the base weights around the adapters are gathered too: one
    layer at a time, or all of them at once. The adapters go to the host from there. FSDP1's whole
    state dict for SGLang's ``dummy_hf`` is as large.

    Source: verl ``utils/fsdp_utils.py`` (``layered_summon_lora_params``, ``collect_lora_params``),
    verl 0.5.0 ``workers/sharding_manager/fsdp_sglang.py``.
    """
    size, whole = engine.stored_dtype.bytes, sync.gathers_whole_model
    count = model.parameters if whole else model.largest_layer_parameters
    return Term(
        item=Item.SYNC,
        name="sync_summoned",
        bytes=size * count,
        formula="b_s N" if whole else "b_s U_l",
        symbols=(("b_s", size), ("N" if whole else "U_l", count)),
        source="memory.weight_sync.summoned_term",
    )


def _sends_adapters(engine: Engine) -> bool:
    return engine.lora is not None and not engine.lora.merged_for_rollout


def _copies_shards(engine: Engine, sync: WeightSync) -> bool:
    """Whether the trainer's weights leave through FSDP1's sharded state dict."""
    whole = sync.gathers_whole_model or engine.parallel.shard == 1
    return engine.backend is Backend.FSDP and not _sends_adapters(engine) and not whole


def trainer_while_sending(states: States, sync: WeightSync) -> tuple[Term, ...]:
    """The trainer's own weights during the transfer: offloaded ones may have left, or never come."""
    engine = states.engine
    if states.kept_parameters or engine.backend is Backend.MEGATRON:
        return (states.parameters,)
    if engine.backend is Backend.FSDP:
        return () if sync.offloads_first else (states.parameters,)
    return (states.parameters,) if sync.stages_weights else ()


def gather_moment(model: ModelShape, states: States, sync: WeightSync) -> tuple[Term, ...]:
    """What the trainer holds while it makes a state dict or summons adapters; empty where it does neither."""
    engine = states.engine
    if engine.backend is Backend.MEGATRON:
        return ()
    if _sends_adapters(engine) or sync.gathers_whole_model:
        return (states.parameters, summoned_term(model, engine, sync))
    if not _copies_shards(engine, sync):
        return ()
    return (states.parameters, copied_shards_term(model, engine), unsharded_units_term(model, engine))


def transfer_moment(model: ModelShape, states: States, sync: WeightSync) -> tuple[Term, ...]:
    """What both sides hold while tensor after tensor travels."""
    engine, buckets = states.engine, bucket_term(sync)
    own = trainer_while_sending(states, sync)
    if _sends_adapters(engine) and engine.backend is not Backend.MEGATRON:
        return (*own, buckets)
    if engine.backend is not Backend.MEGATRON and sync.gathers_whole_model:
        return (*own, buckets, summoned_term(model, engine, sync))
    if _copies_shards(engine, sync):
        own = (*own, copied_shards_term(model, engine))
    return (*own, buckets, tensor_term(model, engine, sync))


def sync_moments(workload: Workload, memory: RolloutMemory, states: States) -> tuple[Moment, ...]:
    """The moments of one weight sync: the trainer's weights, what is gathered, and the engine coming back.

    Where releases map the engine's weights before they gather the trainer's, both are there at once.
    vLLM 0.6.3 puts its weights together on the host, and moves them when the last tensor has come.

    Source: verl 0.4.1 ``third_party/vllm/vllm_v_0_6_3/dtensor_weight_loaders.py`` (``load_dtensor_weights``).
    """
    sync = workload.sync
    back = waking_terms(workload, memory) if workload.rollout.colocated else ()
    gather = gather_moment(workload.model, states, sync)
    travelling = transfer_moment(workload.model, states, sync)
    if sync.loads_on_host:
        arrived = (term for term in travelling if term.name != "sync_tensor")
        found = [
            Moment(name="transfer", terms=_present(*travelling)),
            Moment(name="weights_moved", terms=_present(*arrived, *back)),
        ]
    else:
        found = [Moment(name="transfer", terms=_present(*travelling, *back))]
    if gather:
        early = back if sync.resumes_first else ()
        found.insert(0, Moment(name="gather", terms=_present(*gather, *early)))
    return tuple(found)


def _present(*terms: Term) -> tuple[Term, ...]:
    return tuple(term for term in terms if term.bytes)
