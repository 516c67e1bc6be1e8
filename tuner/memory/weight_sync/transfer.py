r"""What carrying new weights to the rollout engine allocates, on both sides.

Symbols: :math:`N` parameters, :math:`W` ranks that share one copy, :math:`U_r` and :math:`U_l` parameters
of FSDP's root unit and of its largest layer, :math:`E` the largest tensor, :math:`B` a bucket,
:math:`b_s` bytes of the stored dtype.
"""

from functools import lru_cache

from msgspec.structs import replace

from tuner.memory.fsdp.states import stored_parameters
from tuner.memory.fsdp.units import root_parameters
from tuner.memory.ledger.formula import ceil_div, largest
from tuner.memory.ledger.stated_terms import Size, stated
from tuner.memory.ledger.terms import Item, Moment, Term
from tuner.memory.residents import States, states_of
from tuner.memory.rollout.capacity import cache_share
from tuner.memory.rollout.terms import waking_terms
from tuner.memory.weight_sync.megatron_tensors import leaving_tensor
from tuner.memory.weight_sync.tensor_sizes import (
    gate_and_up_parameters,
    largest_layer_tensor_parameters,
    largest_tensor_parameters,
    parameters_behind_largest,
)
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, WeightSync, Workload

SYMBOLS = {
    "B": "bytes of one bucket",
    "D_l": "parameters behind the largest tensor of a layer: down projections of its experts",
    "E": "elements of the largest tensor",
    "E_l": "elements of the largest tensor of a layer",
    "E_o": "elements of the output matrix; 0 where it is the embedding",
    "E_v": "elements of the embedding",
    "E_x": "elements of the gate and up projections of a layer's experts",
    "N_a": "parameters of the adapters",
    "n_e": "buckets on the engine's side",
    "n_t": "buckets on the trainer's side",
}


def gathered_tensor_bytes(*, b_s: int, E: int) -> int:
    """One tensor on its way, whole, in the dtype that FSDP stores it in.

    Source: verl 0.9.1 and 0.8.0 ``workers/engine/fsdp/transformer_impl.py`` (``get_per_tensor_param``).
    """
    return b_s * E


def cast_tensor_bytes(*, b_s: int, b_t: int, E: int) -> int:
    """One tensor on its way from FSDP, cast before it travels: both copies are held for a moment.

    Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``get_per_tensor_param``).
    """
    return (b_s + b_t) * E


def gathered_tensor(model: ModelShape, engine: Engine, sync: WeightSync) -> Term:
    """The largest tensor on its way, by how the trainer's engine gathers it."""
    if engine.backend is Backend.MEGATRON:
        return leaving_tensor(Item.SYNC, "sync_tensor", model, engine)
    if model.moe is not None and _cut_into_experts(model, sync):
        return _packed_experts(model, engine)
    numbers = {"E": largest_tensor_parameters(model), "b_s": engine.stored_dtype.bytes}
    size: Size = gathered_tensor_bytes
    if sync.sent_dtype is not None and sync.sent_dtype is not engine.stored_dtype:
        size, numbers["b_t"] = cast_tensor_bytes, sync.sent_dtype.bytes
    return stated(Item.SYNC, "sync_tensor", size, numbers)


def packed_experts_bytes(*, b_s: int, E_x: int, E_v: int, E_o: int) -> int:
    """Gate and up projections of a layer's experts on their way, beside those of the layer before.

    The matrices of single experts are cut out of one tensor, and what cuts them holds its two halves until
    it comes to the next such tensor: that one, or the output matrix behind the last layer, is gathered
    beside them. The embedding, which comes first, may be larger still.

    Source: verl 0.9.0 and 0.9.1 ``workers/engine/fsdp/utils.py`` (``unfuse_moe_params``: ``gate, up``).
    """
    return b_s * largest(E_v, E_x + largest(E_x, E_o))


def _packed_experts(model: ModelShape, engine: Engine) -> Term:
    numbers = {
        "b_s": engine.stored_dtype.bytes,
        "E_x": gate_and_up_parameters(model),
        "E_v": model.embedding_parameters,
        "E_o": 0 if model.shares_embedding else model.embedding_parameters,
    }
    return stated(Item.SYNC, "sync_tensor", packed_experts_bytes, numbers)


def _cut_into_experts(model: ModelShape, sync: WeightSync) -> bool:
    """Whether experts that are one tensor leave one by one; those of gpt-oss leave as they are."""
    return not sync.experts_apart and model.architecture != "gpt_oss"


def bucket_bytes(*, n_t: int, n_e: int, B: int) -> int:
    """Buffers that tensors are copied into.

    The trainer fills :math:`n_t` buckets: one where the engine shares the card and maps it through
    CUDA IPC, two where it is sent over the network while the next is filled (``nccl``, ``nixl``,
    ``mooncake``), those of ``nixl`` and of rank 0 under ``nccl`` outside PyTorch's allocator.
    ``delta_sharded`` gathers one, has put one together and broadcasts a copy of it: three.
    ``kimi_ckpt_engine`` gathers one and moves it to the host. An engine that clones what it receives
    holds :math:`n_e = 1` more. SGLang has no such buffer, but gets as many whole tensors at once as
    fill one.

    Source: verl 0.7.1, 0.8.0 and 0.9.1 ``workers/rollout/vllm_rollout/bucketed_weight_transfer.py``,
    ``checkpoint_engine/nccl_checkpoint_engine.py`` and ``nixl_checkpoint_engine.py`` (``prepare``),
    ``mooncake_checkpoint_engine.py`` (``__init__``), ``delta_checkpoint_engine.py`` (``_FlushBucket``),
    ``kimi_checkpoint_engine.py`` (``ckpt_get_named_tensor_buckets``); SGLang ``weight_sync/utils.py``.
    """
    return (n_t + n_e) * B


def buckets(sync: WeightSync) -> Term:
    """The buckets on both sides."""
    numbers = {"n_t": sync.buckets, "n_e": sync.engine_buckets, "B": sync.bucket_bytes}
    return stated(Item.SYNC, "sync_buckets", bucket_bytes, numbers)


def copied_shard_bytes(*, b_s: int, N: int, W: int) -> int:
    """FSDP1's state dict holds a copy of every shard.

    The flat weights of a unit are gathered, and each rank copies its part of every tensor out of them.
    FSDP2's state dict only refers to the shards there are.

    Source: torch ``distributed/fsdp/_state_dict_utils.py`` (``_sharded_post_state_dict_hook``),
    ``_shard_utils.py`` (``_create_chunk_dtensor``).
    """
    return b_s * ceil_div(N, W)


def copied_shards(model: ModelShape, engine: Engine) -> Term:
    """The copy of all shards of an engine."""
    numbers = {
        "b_s": engine.stored_dtype.bytes,
        "N": stored_parameters(model, engine),
        "W": engine.parallel.shard,
    }
    return stated(Item.SYNC, "sync_shards", copied_shard_bytes, numbers)


def tied_shard_bytes(*, b_s: int, E_v: int, W: int) -> int:
    """FSDP1's state dict holds a second copy of the shard of an output matrix that is tied to the embedding.

    A state dict has a shard for every name of a parameter, each a copy of its own, and a tied matrix has two
    names. FSDP2's refers to the same shard twice.

    Source: torch ``distributed/fsdp/_flat_param.py`` (``FlatParamHandle.param_module_names``, with
    ``_shared_param_infos``), ``_state_dict_utils.py`` (``_common_unshard_post_state_dict_hook``).
    """
    return b_s * ceil_div(E_v, W)


def shards_of_state_dict(model: ModelShape, engine: Engine) -> tuple[Term, ...]:
    """All shards that FSDP1's state dict holds beside those that the engine trains."""
    copied = copied_shards(model, engine)
    if not model.shares_embedding:
        return (copied,)
    numbers = {
        "b_s": engine.stored_dtype.bytes,
        "E_v": model.embedding_parameters,
        "W": engine.parallel.shard,
    }
    return (copied, stated(Item.SYNC, "sync_tied_shard", tied_shard_bytes, numbers))


def unsharded_unit_bytes(*, b_s: int, U_r: int, U_l: int, E_l: int, D_l: int, E_v: int, W: int) -> int:
    """Units that FSDP1 gathers for its state dict, in full precision.

    Each unit is gathered while its own part of the state dict is made, the root all the while; every
    tensor is copied whole before its shard is cut out (:math:`E_l` the largest tensor of a layer). Shards of
    what comes later are not there yet: those of the root, whose own part is made last, and those of the
    :math:`D_l` parameters behind that tensor in the last layer.

    Source: torch ``distributed/fsdp/_state_dict_utils.py`` (``_common_unshard_pre_state_dict_hook``),
    ``_flat_param.py`` (``_force_full_precision``).
    """
    return b_s * (U_r + largest(U_l + E_l - (U_r + D_l) // W, E_v))


def unit_numbers(model: ModelShape, engine: Engine) -> dict[str, float]:
    """The symbols of the units that an engine gathers for a state dict."""
    return {
        "b_s": engine.stored_dtype.bytes,
        "U_r": root_parameters(model, engine),
        "U_l": model.largest_layer_parameters,
        "E_l": largest_layer_tensor_parameters(model),
        "E_v": model.embedding_parameters,
    }


def unsharded_units(model: ModelShape, engine: Engine) -> Term:
    """The units that exist at once when the state dict of an engine is made."""
    later = {"D_l": parameters_behind_largest(model), "W": engine.parallel.shard}
    numbers = unit_numbers(model, engine) | later
    return stated(Item.SYNC, "sync_units", unsharded_unit_bytes, numbers)


def summoned_layer_bytes(*, b_s: int, U_l: int) -> int:
    """Gathering LoRA adapters layer by layer; they travel without the base model.

    FSDP can only summon whole units, so the base weights around the adapters are gathered too. The
    adapters go to the host from there.

    Source: verl ``utils/fsdp_utils.py`` (``layered_summon_lora_params``).
    """
    return b_s * U_l


def summoned_model_bytes(*, b_s: int, N: int) -> int:
    """Gathering LoRA adapters from all units; as large as FSDP1's state dict for SGLang's ``dummy_hf``.

    Source: verl ``utils/fsdp_utils.py`` (``collect_lora_params``),
    verl 0.5.0 ``workers/sharding_manager/fsdp_sglang.py``.
    """
    return b_s * N


def summoned_shard_bytes(*, b_s: int, N: int, N_a: int, U_r: int, E_l: int, W: int) -> int:
    """What FSDP1 holds beside the gathered weights when adapters are collected from all units.

    The adapters' part is taken out of a state dict of the whole model, in which every unit but the root
    (of :math:`U_r` parameters) has a copy of this rank's shard of each tensor. The :math:`N_a` parameters of
    the adapters are gathered as well, and the largest tensor of a layer is copied whole before its shard is
    cut out.

    Source: verl ``utils/fsdp_utils.py`` (``collect_lora_params``: ``get_peft_model_state_dict``), which asks
    the module within the root unit; torch ``distributed/fsdp/_state_dict_utils.py``
    (``_sharded_post_state_dict_hook``), ``_shard_utils.py`` (``_create_chunk_dtensor``).
    """
    return b_s * (N_a + E_l + ceil_div(N + N_a - U_r, W))


def summoned_shards(model: ModelShape, engine: Engine) -> Term:
    """The shards that a state dict copies while adapters are collected from all units."""
    numbers = {
        "b_s": engine.stored_dtype.bytes,
        "N": model.parameters,
        "N_a": stored_parameters(model, engine) - model.parameters,
        "U_r": root_parameters(model, engine),
        "E_l": largest_layer_tensor_parameters(model),
        "W": engine.parallel.shard,
    }
    return stated(Item.SYNC, "sync_summoned_shards", summoned_shard_bytes, numbers)


def summoned(model: ModelShape, engine: Engine, sync: WeightSync) -> Term:
    """What FSDP gathers around the adapters."""
    numbers = {
        "b_s": engine.stored_dtype.bytes,
        "N": model.parameters,
        "U_l": model.largest_layer_parameters,
    }
    size = summoned_model_bytes if sync.gathers_whole_model else summoned_layer_bytes
    return stated(Item.SYNC, "sync_summoned", size, numbers)


def _sends_adapters(engine: Engine) -> bool:
    return engine.lora is not None and not engine.lora.merged_for_rollout


def _copies_shards(engine: Engine, sync: WeightSync) -> bool:
    """Whether the trainer's weights leave through FSDP1's sharded state dict."""
    whole = sync.gathers_whole_model or engine.parallel.shard == 1
    return engine.backend is Backend.FSDP and not _sends_adapters(engine) and not whole


def _copies_for_adapters(engine: Engine, sync: WeightSync) -> bool:
    """Whether adapters are collected out of a sharded state dict of FSDP1."""
    sharded = engine.backend is Backend.FSDP and engine.parallel.shard > 1
    return sharded and _sends_adapters(engine) and sync.gathers_whole_model


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
        copies = (summoned_shards(model, engine),) if _copies_for_adapters(engine, sync) else ()
        return (states.parameters, summoned(model, engine, sync), *copies)
    if not _copies_shards(engine, sync):
        return ()
    return (states.parameters, *shards_of_state_dict(model, engine), unsharded_units(model, engine))


def transfer_moment(model: ModelShape, states: States, sync: WeightSync) -> tuple[Term, ...]:
    """What both sides hold while tensor after tensor travels."""
    engine, filled = states.engine, buckets(sync)
    own = trainer_while_sending(states, sync)
    if _sends_adapters(engine) and engine.backend is not Backend.MEGATRON:
        return (*own, filled)
    if engine.backend is not Backend.MEGATRON and sync.gathers_whole_model:
        return (*own, filled, summoned(model, engine, sync))
    if _copies_shards(engine, sync):
        own = (*own, *shards_of_state_dict(model, engine))
    return (*own, filled, gathered_tensor(model, engine, sync))


def sync_moments(workload: Workload, states: States) -> tuple[Moment, ...]:
    """The moments of one weight sync: the trainer's weights, what is gathered, and the engine coming back.

    Where releases map the engine's weights before they gather the trainer's, both are there at once.
    vLLM 0.6.3 puts its weights together on the host, and moves them when the last tensor has come.

    Source: verl 0.4.1 ``third_party/vllm/vllm_v_0_6_3/dtensor_weight_loaders.py`` (``load_dtensor_weights``).
    """
    colocated = workload.generator.colocated
    back = waking_terms(workload, cache_share(workload).cache_term) if colocated else ()
    return _moments(workload.model, states.engine, workload.weight_sync, back, colocated=colocated)


@lru_cache(maxsize=256)  # jobs that give the engine another share of the card send the same
def _moments(
    model: ModelShape, engine: Engine, sync: WeightSync, back: tuple[Term, ...], *, colocated: bool
) -> tuple[Moment, ...]:
    states = states_of(model, engine, "actor")
    gather = gather_moment(model, states, sync)
    travelling = transfer_moment(model, states, sync)
    if sync.loads_on_host:
        arrived = (term for term in travelling if term.name != "sync_tensor")
        moments = [
            Moment(name="transfer", terms=_present(*travelling)),
            Moment(name="weights_moved", terms=_present(*arrived, *back)),
        ]
    else:
        moments = [Moment(name="transfer", terms=_present(*travelling, *back))]
    if colocated and sync.carrier is not None:  # engines elsewhere get theirs first
        filled = 0 if sync.carrier.keeps_buckets else sync.carrier.sender_buckets
        apart = replace(sync, buckets=filled, engine_buckets=0)
        sent = transfer_moment(model, states, apart)
        moments.insert(0, Moment(name="send", terms=_present(*sent)))
    if gather:
        early = back if sync.resumes_first else ()
        moments.insert(0, Moment(name="gather", terms=_present(*gather, *early)))
    return tuple(moments)


def _present(*terms: Term) -> tuple[Term, ...]:
    return tuple(term for term in terms if term.bytes)
