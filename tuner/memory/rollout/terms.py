"""The rollout engine as terms: awake, asleep, and with its weights back for new ones."""

from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.overhead import (
    GRAPH_LAYER,
    GRAPH_PIECE,
    GRAPH_POOL,
    NCCL_CODE,
    NCCL_KERNEL,
    context,
)
from tuner.memory.rollout.capacity import RolloutMemory
from tuner.memory.rollout.graphs import captured_graphs, graph_interval
from tuner.memory.rollout.profile_run import step_width, tuned_bytes
from tuner.memory.rollout.share import (
    CacheShare,
    Symbols,
    engine_buffers,
    engine_process,
    engine_weight_bytes,
)
from tuner.serving.vllm import LARGEST_GRAPH
from tuner.workload import FractionOf, Workload


def weights_term(workload: Workload) -> Term:
    """The engine's weights on one GPU."""
    model, rollout = workload.model, workload.rollout
    experts = model.sparse_layers * model.expert_parameters
    symbols: Symbols = (
        ("b", rollout.weight_dtype.bytes),
        ("N", model.parameters),
        ("T_p", rollout.tensor_parallel),
    )
    formula = "b N / T_p / P_p"
    if experts:
        ranks = max(rollout.tensor_parallel, rollout.expert_parallel)
        formula = "b ((N - N_E) / T_p + N_E / G_E) / P_p"
        symbols = (*symbols, ("N_E", experts), ("G_E", ranks))
    return Term(
        item=Item.ENGINE,
        name="engine_weights",
        bytes=engine_weight_bytes(workload),
        formula=formula,
        symbols=(*symbols, ("P_p", rollout.pipeline_parallel)),
        source="memory.rollout.share.engine_weight_bytes",
    )


def activations_term(workload: Workload, memory: RolloutMemory) -> Term:
    """What the engine's profile run needs beyond weights, and a step may need again."""
    model, rollout = workload.model, workload.rollout
    steps, tunes = rollout.max_batched_tokens, tuned_bytes(workload) > 0
    step = "b t H + max(b t (3 ceil(I / T_p) + 3 H), b_V s V)"
    return Term(
        item=Item.ENGINE,
        name="engine_activations",
        bytes=memory.activation_bytes,
        evidence=Evidence.MODELLED,
        formula=f"max({step}, b H (ceil(V / T_p) + 2 t))" if tunes else step,
        symbols=(
            ("b", DType.BFLOAT16.bytes),
            ("t", steps),
            ("H", model.hidden),
            ("I", step_width(model)),
            ("T_p", rollout.tensor_parallel),
            ("b_V", rollout.sampler_bytes),
            ("s", min(rollout.max_sequences, steps)),
            ("V", model.vocab),
        ),
        source="memory.rollout.profile_run.engine_activation_bytes",
    )


def graphs_term(workload: Workload, *, counted: bool = False) -> Term:
    """CUDA graphs; ``counted`` where the cache is smaller by as much as they are larger."""
    found = captured_graphs(workload)
    low, typical, high = graph_interval(workload)
    return Term(
        item=Item.ENGINE,
        name="engine_graphs",
        bytes=typical,
        evidence=Evidence.HEURISTIC,
        formula="ceil(g min(1, m / m_0)) + n_w L g_w + n_p (L + 1) g_p",
        symbols=(
            ("g", GRAPH_POOL.typical),
            ("m", found.largest),
            ("m_0", LARGEST_GRAPH),
            ("n_w", found.whole),
            ("L", found.layers),
            ("g_w", GRAPH_LAYER.typical),
            ("n_p", found.pieced),
            ("g_p", GRAPH_PIECE.typical),
        ),
        source="memory.rollout.graphs.graph_interval",
        low_bytes=None if counted else low,
        high_bytes=None if counted else high,
    )


def buffers_term(workload: Workload) -> Term:
    """What the engine's process holds beyond its share."""
    found = engine_buffers(workload)
    return Term(
        item=Item.ENGINE,
        name="engine_buffers",
        bytes=sum(part.typical for part in found),
        evidence=Evidence.HEURISTIC,
        formula="h",
        symbols=tuple(("h", part.typical) for part in found),
        source="memory.rollout.share.engine_buffers",
        low_bytes=sum(part.low for part in found),
        high_bytes=sum(part.high for part in found),
    )


def process_term(workload: Workload, *, counted: bool = False) -> Term:
    """Context and communicator of the engine's process; ``counted`` as for graphs."""
    parts = engine_process(workload)
    loaded = {context(workload.cluster.gpu): "c_x", NCCL_CODE: "c_n", NCCL_KERNEL: "c_k"}
    names = tuple(loaded.get(part, "c_c") for part in parts)
    typical = sum(part.typical for part in parts)
    return Term(
        item=Item.ENGINE,
        name="engine_process",
        bytes=typical,
        evidence=Evidence.HEURISTIC,
        formula=" + ".join(names),
        symbols=tuple((name, part.typical) for name, part in zip(names, parts, strict=True)),
        source="memory.rollout.share.engine_process",
        low_bytes=None if counted else sum(part.low for part in parts),
        high_bytes=None if counted else sum(part.high for part in parts),
    )


def cache_term(workload: Workload, memory: RolloutMemory) -> Term:
    """The KV cache."""
    formula, symbols = CacheShare(workload).formula
    fits = memory.kv_bytes > 0
    return Term(
        item=Item.KV_CACHE,
        name="kv_cache",
        bytes=max(0, memory.kv_bytes),
        evidence=Evidence.MODELLED,
        formula=formula if fits else f"max(0, {formula})",
        symbols=symbols,
        source="memory.rollout.share.engine_cache_bytes",
    )


def awake_terms(workload: Workload, memory: RolloutMemory) -> tuple[Term, ...]:
    """The engine while it generates.

    Where its fraction covers context or graphs, larger ones leave a smaller cache, and the sum stays.
    """
    rollout = workload.rollout
    found = (
        weights_term(workload),
        activations_term(workload, memory),
        graphs_term(workload, counted=rollout.counts_graphs),
        process_term(workload, counted=rollout.fraction_of in (FractionOf.TOTAL_OF_ALL, FractionOf.OWN)),
        buffers_term(workload),
        cache_term(workload, memory),
    )
    return tuple(term for term in found if term.bytes)


def asleep_terms(workload: Workload, memory: RolloutMemory) -> tuple[Term, ...]:
    """What the engine keeps while the trainer works: graphs, process, buffers; all where it never sleeps.

    vLLM 0.6.3 moves its weights to the host in any case, its cache only where verl is told to free it.

    Source: vLLM ``device_allocator/cumem.py`` (only weights and cache lie in its pools), SGLang
    ``managers/scheduler_update_weights_mixin.py`` (``release_memory_occupation``), verl 0.4.1
    ``third_party/vllm/vllm_v_0_6_3/worker.py`` (``offload_model_weights``, ``free_cache_engine``).
    """
    if not workload.rollout.frees_memory:
        return awake_terms(workload, memory)
    weights = (weights_term(workload),) if workload.rollout.sleeps_with_weights else ()
    cache = (cache_term(workload, memory),) if workload.rollout.sleeps_with_cache else ()
    kept = (*weights, *cache, graphs_term(workload), process_term(workload), buffers_term(workload))
    return tuple(term for term in kept if term.bytes)


def waking_terms(workload: Workload, memory: RolloutMemory) -> tuple[Term, ...]:
    """What comes back before new weights arrive: weights, and the cache too where both wake together."""
    rollout = workload.rollout
    if not rollout.frees_memory:
        return ()
    weights = () if rollout.sleeps_with_weights else (weights_term(workload),)
    cache = () if rollout.staged_wake_up else (cache_term(workload, memory),)
    return tuple(term for term in (*weights, *cache) if term.bytes)
