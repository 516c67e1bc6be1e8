r"""Host memory per node: offloaded states, and copies that a sleeping rollout engine keeps.

Symbols as for the states on the card, and :math:`G` GPUs of a node. Nearly all of it is pinned, because
copies that do not block the host need that. PyTorch hands pinned memory out in powers of two, tensor
by tensor, and keeps what is freed: each size is at least the sum of its tensors and at most twice that.

Source: torch ``ATen/core/CachingHostAllocator.h``; verl ``utils/fsdp_utils.py``
(``to("cpu", non_blocking=True)``).
"""

from fractions import Fraction
from math import ceil

from tuner.dtypes import DType
from tuner.memory import model_states
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron import grid
from tuner.memory.rollout.terms import weights_term
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, RolloutEngine, Workload

_MOST = 2  # times the tensor: the next power of two


def weights_on_host(model: ModelShape, engine: Engine, role: str) -> Term | None:
    r"""Weights that are offloaded between passes, or streamed from the host unit by unit.

    .. math:: G \, b_s \lceil N / W \rceil \;\text{(FSDP)}, \qquad G \, b_c N_p \;\text{(Megatron)}

    Source: verl 0.9.1 ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu``),
    ``utils/megatron_utils.py`` (``offload_megatron_model_to_cpu``); torch
    ``fsdp/_fully_shard/_fsdp_param.py`` (``offload_to_cpu``).
    """
    if not (engine.param_offload or engine.streamed_offload):
        return None
    if engine.backend is Backend.MEGATRON:
        count = grid.local_parameters(model, engine).total + model_states.megatron_adapters(engine)
        size = engine.compute_dtype.bytes
        per_gpu, formula, symbols = size * count, "b_c N_p", {"b_c": size, "N_p": count}
    else:
        count, size = model_states.stored_parameters(model, engine), engine.stored_dtype.bytes
        per_gpu, formula = model_states.shard(count, engine) * size, "b_s ceil(N / W)"
        symbols = {"b_s": size, "N": count, "W": engine.parallel.shard}
    return _term(Item.PARAMETERS, f"{role}_weights", per_gpu, formula, "weights_on_host", **symbols)


def optimizer_on_host(model: ModelShape, engine: Engine, role: str) -> Term | None:
    r"""Optimizer states that are offloaded between passes, or live on the host.

    .. math::
        2 \, G \, b_o \lceil N_t / W \rceil \;\text{(FSDP)}, \qquad
        G \, N_o \bigl( b_m (1 - f_m) + 2 b_o (1 - f) \bigr) \;\text{(Megatron)}

    Megatron's main weights are part of its optimizer and go with it.

    Source: verl 0.9.1 ``utils/fsdp_utils.py`` (``offload_fsdp_optimizer``),
    ``utils/megatron_utils.py`` (``offload_megatron_optimizer``, ``offload_megatron_copy_params``).
    """
    moment, trained = engine.optimizer_dtype.bytes, model_states.trained_parameters(model, engine)
    if engine.backend is not Backend.MEGATRON:
        if not (engine.optimizer_offload or engine.streamed_offload):
            return None
        per_gpu = model_states.MOMENTS * moment * model_states.shard(trained, engine)
        formula, symbols = "2 b_o ceil(N_t / W)", {"b_o": moment, "N_t": trained, "W": engine.parallel.shard}
        return _term(Item.OPTIMIZER, f"{role}_optimizer", per_gpu, formula, "optimizer_on_host", **symbols)
    if not engine.optimizer_offload:
        return None
    fraction = engine.optimizer_offload_fraction
    return _term(
        Item.OPTIMIZER,
        f"{role}_optimizer",
        model_states.optimizer_bytes(model, engine),
        "N_o (b_m (1 - f_m) + 2 b_o (1 - f))",
        "optimizer_on_host",
        N_o=model_states.megatron_optimizer_share(model, engine),
        b_m=engine.main_weight_bytes,
        f_m=fraction if engine.main_weights_offloaded else 0,
        b_o=moment,
        f=fraction,
    )


def cpu_step_on_host(model: ModelShape, engine: Engine, role: str) -> Term | None:
    r"""What an optimizer that steps on the CPU needs there beside its moments.

    .. math::
        G \, b_s \lceil N_t / W \rceil \;\text{(FSDP2, CPU offload policy)}, \qquad
        G \lceil f N_o \rceil (8 + 2 b_o) \;\text{(Megatron)}

    FSDP2 sends the reduced gradients to the host, in the dtype of the weights. Megatron's hybrid optimizer
    keeps main weights, gradients and moments of the share :math:`f` there.

    Source: torch ``fsdp/_fully_shard/_fsdp_collectives.py`` (``foreach_reduce``); Megatron-Core
    ``optimizer/cpu_offloading/hybrid_optimizer.py`` (``_init_sub_optimizers``).
    """
    if engine.backend is not Backend.MEGATRON:
        if not engine.streamed_offload:
            return None
        count, size = model_states.trained_parameters(model, engine), engine.stored_dtype.bytes
        per_gpu = model_states.shard(count, engine) * size
        formula, symbols = "b_s ceil(N_t / W)", {"b_s": size, "N_t": count, "W": engine.parallel.shard}
        return _term(Item.GRADIENTS, f"{role}_gradients", per_gpu, formula, "cpu_step_on_host", **symbols)
    fraction, moment = engine.optimizer_offload_fraction, engine.optimizer_dtype.bytes
    if not fraction:
        return None
    share = model_states.megatron_optimizer_share(model, engine)
    return _term(
        Item.OPTIMIZER,
        f"{role}_cpu_optimizer",
        ceil(Fraction(str(fraction)) * share) * (2 * DType.FLOAT32.bytes + model_states.MOMENTS * moment),
        "ceil(f N_o) (8 + 2 b_o)",
        "cpu_step_on_host",
        f=fraction,
        N_o=share,
        b_o=moment,
    )


def engine_copy(workload: Workload) -> Term | None:
    """The rollout engine's weights, where it copies them to the host while it sleeps.

    vLLM does at sleep level 1, in pinned memory that it keeps. SGLang does with a CPU backup of its
    weights, in blocks of their exact size, and so does verl 0.4 for vLLM 0.6.3; TensorRT-LLM drops its
    weights.

    Source: vLLM ``device_allocator/cumem.py`` (``sleep``), SGLang
    ``managers/scheduler_update_weights_mixin.py``;
    verl 0.9.1 ``workers/rollout/sglang_rollout/async_sglang_server.py`` (``enable_weights_cpu_backup``),
    ``workers/rollout/trtllm_rollout/trtllm_async_server.py`` (``restore_modes``); verl 0.4.1
    ``third_party/vllm/vllm_v_0_6_3/worker.py`` (``offload_model_weights``).
    """
    rollout = workload.rollout
    asleep = rollout.colocated and rollout.frees_memory and not rollout.sleeps_with_weights
    if not asleep or rollout.sleep_level != 1 or rollout.engine is RolloutEngine.TRANSFORMERS:
        return None
    weights = weights_term(workload)
    return _term(
        Item.ENGINE,
        "rollout_weights",
        weights.bytes,
        f"ceil({weights.formula})",
        "engine_copy",
        most=_MOST if rollout.engine is RolloutEngine.VLLM and rollout.pins_copy else 1,
        **dict(weights.symbols),
    )


def engine_swap(workload: Workload) -> Term | None:
    r"""Blocks of the KV cache that the V0 core of vLLM keeps on the host for preempted sequences.

    .. math:: G \, s_w

    :math:`s_w` is the engine's ``swap_space``, 4 GiB for each GPU, which verl leaves as it is. The V1
    core computes preempted sequences again and swaps nothing.

    Source: vLLM 0.7.3 ``entrypoints/llm.py`` (``swap_space``), ``worker/cache_engine.py``
    (``_allocate_kv_cache``).
    """
    rollout = workload.rollout
    if not rollout.swap_bytes or not rollout.colocated:
        return None
    return _term(
        Item.ENGINE, "rollout_swap", rollout.swap_bytes, "s_w", "engine_swap", s_w=rollout.swap_bytes
    )


def _states(model: ModelShape, engine: Engine, role: str) -> tuple[Term, ...]:
    trained = () if role == "reference" else (optimizer_on_host, cpu_step_on_host)
    found = (make(model, engine, role) for make in (weights_on_host, *trained))
    return tuple(term for term in found if term is not None)


def _term(
    item: Item, name: str, size: int, formula: str, source: str, *, most: int = _MOST, **symbols: float
) -> Term:
    return Term(
        item=item,
        name=name,
        bytes=size,
        formula=formula,
        symbols=tuple(symbols.items()),
        source=f"memory.host.{source}",
        low_bytes=size,
        high_bytes=most * size,
    )


def host_terms(workload: Workload) -> tuple[Term, ...]:
    """Everything in the host memory of one node: actor, reference, critic, and the rollout engine's copy."""
    gpus, found = workload.cluster.gpus_per_node, [*_states(workload.model, workload.actor.engine, "actor")]
    reference, critic = workload.reference, workload.critic
    if reference is not None and reference.separate:
        found += _states(workload.model, reference.engine, "reference")
    if critic is not None:
        found += _states(critic.model, critic.engine, "critic")
    found += [term for term in (engine_copy(workload), engine_swap(workload)) if term is not None]
    return tuple(_of_node(term, gpus) for term in found)


def _of_node(term: Term, gpus: int) -> Term:
    """A term of one GPU for all GPUs of a node."""
    return Term(
        item=term.item,
        name=term.name,
        bytes=gpus * term.bytes,
        evidence=term.evidence,
        formula=f"G {term.formula}",  # a product
        symbols=(("G", gpus), *term.symbols),
        source=term.source,
        low_bytes=gpus * term.low,
        high_bytes=gpus * term.high,
    )
