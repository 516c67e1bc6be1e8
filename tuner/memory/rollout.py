"""What the rollout engine allocates, and what its memory fraction leaves for the cache."""

from dataclasses import dataclass
from math import ceil

from tuner.dtypes import DType
from tuner.memory.kv_cache import kv_bytes_per_sequence, kv_bytes_per_token
from tuner.memory.overhead import CUDA_GRAPHS, process_overhead_bytes
from tuner.memory.residents import Residents
from tuner.workload import FractionOf, RolloutEngine, Workload

# Sampling holds logits in the compute dtype, their float32 copy and the sorted probabilities.
SAMPLER_BYTES_PER_LOGIT = DType.BFLOAT16.bytes + 2 * DType.FLOAT32.bytes
DEFAULT_CAPTURE_SIZES = 67  # vLLM's list up to 512 sequences: 1, 2, 4, then every eighth


@dataclass(frozen=True, kw_only=True)
class RolloutMemory:
    """Per GPU of one replica, in bytes unless the name says otherwise."""

    weight_bytes: int
    activation_bytes: int  # profile run: prefill chunk and sampler
    graph_bytes: int
    kv_bytes: int  # cache that the fraction leaves; 0 or less: the engine cannot start
    pool_bytes: int  # all the engine takes while awake
    asleep_bytes: int  # what it keeps while asleep
    kv_bytes_per_token: int
    kv_tokens: int  # tokens one replica can cache
    model_tokens: int  # longest sequence the engine is built for
    concurrent_sequences: int  # sequences of full length one replica can hold, at most max_sequences


def engine_weight_bytes(workload: Workload) -> int:
    r"""Weights of the rollout engine on one GPU.

    .. math:: b \, (N - N_E) / (T_p \, P_p) + b \, N_E / (G_E \, P_p)

    Routed experts :math:`N_E` are divided over tensor parallelism, or over the expert-parallel group
    where there is one; everything else is replicated over data parallelism.
    """
    model, rollout = workload.model, workload.rollout
    experts = model.sparse_layers * model.expert_parameters
    expert_ranks = max(rollout.tensor_parallel, rollout.expert_parallel)
    per_gpu = (model.parameters - experts) / rollout.tensor_parallel + experts / expert_ranks
    return ceil(per_gpu * rollout.weight_dtype.bytes / rollout.pipeline_parallel)


def engine_activation_bytes(workload: Workload) -> int:
    r"""What the engine's profile run needs beyond weights.

    .. math:: b \, t \, (3 I / T_p + 4 H) + 10 \, s \, V

    :math:`t` tokens of one scheduling step (``max_batched_tokens``) and :math:`s` sequences that are
    sampled at once.
    """
    model, rollout = workload.model, workload.rollout
    compute = DType.BFLOAT16.bytes
    widths = [model.intermediate]
    if model.moe is not None:
        widths = [model.moe.experts_per_token * model.moe.expert_intermediate + model.moe.shared_intermediate]
    layer = compute * (3 * max(widths) / rollout.tensor_parallel + 4 * model.hidden)
    sampled = min(rollout.max_sequences, rollout.max_batched_tokens)
    return ceil(rollout.max_batched_tokens * layer + SAMPLER_BYTES_PER_LOGIT * sampled * model.vocab)


def graph_bytes(workload: Workload) -> int:
    """CUDA graphs; a shorter list of batch sizes takes its share of the default list's pool."""
    rollout = workload.rollout
    if not rollout.cuda_graphs or rollout.engine is RolloutEngine.TRANSFORMERS:
        return 0
    if rollout.capture_sizes is None:
        return CUDA_GRAPHS.typical
    return ceil(CUDA_GRAPHS.typical * min(1.0, len(rollout.capture_sizes) / DEFAULT_CAPTURE_SIZES))


def _trainer_bytes(workload: Workload) -> int:
    """What the trainer holds on the card while the engine sizes its cache."""
    if not workload.rollout.colocated:
        return 0
    return sum(term.bytes for term in Residents.of(workload).idle)


def _cache_and_pool(workload: Workload, weights: int, activations: int) -> tuple[int, int]:
    """KV cache and the engine's whole pool, graphs and context apart, by meaning of the fraction."""
    rollout, capacity = workload.rollout, workload.cluster.gpu.memory_bytes
    context = process_overhead_bytes(rollout.replica_gpus)
    free = capacity - _trainer_bytes(workload)
    if rollout.fraction_of is FractionOf.STATIC_POOL:
        static = int(rollout.memory_fraction * capacity)
        return static - weights, static + activations
    if rollout.fraction_of is FractionOf.FREE_AFTER_WEIGHTS:
        cache = int(rollout.memory_fraction * (free - context - weights))
        return cache, cache + weights + activations
    base = capacity if rollout.fraction_of is FractionOf.TOTAL else free
    requested = int(rollout.memory_fraction * base)
    return requested - weights - activations - context, requested - context


def rollout_memory(workload: Workload) -> RolloutMemory:
    """The engine's memory on one GPU.

    Source: vLLM ``v1/worker/gpu_worker.py`` (``determine_available_memory``), SGLang
    ``server_args.py`` (``mem_fraction_static``), TensorRT-LLM ``KvCacheConfig``.
    """
    model, rollout = workload.model, workload.rollout
    weights = engine_weight_bytes(workload)
    activations = engine_activation_bytes(workload)
    graphs = graph_bytes(workload)
    cache, pool = _cache_and_pool(workload, weights, activations)
    model_tokens = rollout.max_model_tokens or model.max_positions
    longest = min(model_tokens, workload.batch.sequence_tokens)
    per_token = kv_bytes_per_token(model, rollout)
    usable = max(0, cache)
    held = usable // max(1, kv_bytes_per_sequence(model, rollout, longest)) * rollout.data_parallel
    context = process_overhead_bytes(rollout.replica_gpus)
    return RolloutMemory(
        weight_bytes=weights,
        activation_bytes=activations,
        graph_bytes=graphs,
        kv_bytes=cache,
        pool_bytes=pool + graphs + context,
        asleep_bytes=graphs + context + (0 if rollout.frees_memory else pool),
        kv_bytes_per_token=per_token,
        kv_tokens=usable // max(1, per_token) * rollout.data_parallel,
        model_tokens=model_tokens,
        concurrent_sequences=min(rollout.max_sequences * rollout.data_parallel, held),
    )
