r"""What the rollout engine allocates, and what its memory fraction leaves for the KV cache.

Symbols: :math:`M` the card's memory, :math:`f` the engine's memory fraction, :math:`F` what is free when
the engine has started and loaded nothing, :math:`R` what the trainer holds then, :math:`w` the engine's
weights, :math:`a` what its profile run needs beyond them, :math:`g` CUDA graphs, :math:`c` context and
communicator of its process, :math:`k` the kernels that this process loads after it has begun to count.
"""

from fractions import Fraction
from functools import cached_property, lru_cache

from msgspec.structs import asdict

from tuner.memory.ledger.terms import Term
from tuner.memory.process.overhead import (
    ENGINE_BUFFERS,
    ENGINE_KERNELS,
    NCCL_CODE,
    NCCL_KERNEL,
    Constant,
    communicator,
    context,
)
from tuner.memory.residents import Residents
from tuner.memory.rollout.graphs import graph_interval
from tuner.memory.rollout.profile_run import engine_activation_bytes, step_bytes
from tuner.workload import FractionOf, RolloutEngine, Workload

Symbols = tuple[tuple[str, float], ...]

FRACTION_MEANS = {
    FractionOf.TOTAL: (
        "a share of the card for weights, activations, kernels and cache; its CUDA context is on top"
    ),
    FractionOf.TOTAL_OF_ALL: "a share of the card in which the trainer's memory at the start counts too",
    FractionOf.OWN: "a share of the card for weights, activations, its communicator and cache",
    FractionOf.STATIC_POOL: "a share of what is free at its start, for weights and cache alone",
    FractionOf.FREE_AFTER_WEIGHTS: "a share of what is free after the weights, for the cache alone",
}
"""What each engine takes its memory fraction for, in words."""


def engine_weight_bytes(workload: Workload) -> int:
    r"""Weights of the rollout engine on one GPU.

    .. math:: b \, (N - N_E) / (T_p \, P_p) + b \, N_E / (G_E \, P_p)

    Routed experts :math:`N_E` are divided over tensor parallelism, or over the expert-parallel group
    where there is one; everything else is replicated over data parallelism. Not counted: adapters that
    the engine applies itself, and scales of quantised weights.

    Source: vLLM ``model_executor/layers/linear.py`` (``ColumnParallelLinear``),
    ``model_executor/layers/fused_moe/layer.py`` (``determine_expert_map``).
    """
    model, rollout = workload.model, workload.rollout
    experts = model.sparse_layers * model.expert_parameters
    ranks, expert_ranks = rollout.tensor_parallel, max(rollout.tensor_parallel, rollout.expert_parallel)
    over_both = (model.parameters - experts) * expert_ranks + experts * ranks  # a common denominator
    divisor = ranks * expert_ranks * rollout.pipeline_parallel
    return -(-int(over_both) * rollout.weight_dtype.bytes // divisor)


def engine_buffers(workload: Workload) -> tuple[Constant, ...]:
    r"""What vLLM's own process holds beyond its share: nothing in the trainer's process, or of other engines.

    .. math:: h

    Source: :data:`~tuner.memory.process.overhead.ENGINE_BUFFERS`.
    """
    rollout = workload.rollout
    return (ENGINE_BUFFERS,) if rollout.engine is RolloutEngine.VLLM and rollout.own_process else ()


def engine_process(workload: Workload) -> tuple[Constant, ...]:
    r"""What the engine's process holds outside tensors: a context and a communicator of its own.

    .. math:: c = c_x + c_n + c_k + c_c

    The context, NCCL's code and its first kernel, and the communicator of the engine's ranks; the first three
    only where the engine has a process of its own, NCCL only where a replica has several GPUs.

    Source: :data:`~tuner.memory.process.overhead.CONTEXT`, :data:`~tuner.memory.process.overhead.NCCL_CODE`,
    :data:`~tuner.memory.process.overhead.NCCL_KERNEL`,
    :data:`~tuner.memory.process.overhead.COMMUNICATOR_OVER_LINKS`.
    """
    rollout, gpu = workload.rollout, workload.cluster.gpu
    if rollout.engine is RolloutEngine.TRANSFORMERS:
        return ()
    if rollout.replica_gpus == 1:
        return (context(gpu),) if rollout.own_process else ()
    own = (context(gpu), NCCL_CODE, NCCL_KERNEL) if rollout.own_process else ()
    return (*own, communicator(gpu))


def trainer_at_start(workload: Workload) -> tuple[Term, ...]:
    """What the trainer holds on the card while the engine sizes its cache; nothing on GPUs of its own."""
    return Residents.of(workload).at_start if workload.rollout.colocated else ()


@lru_cache(maxsize=256)
def _as_written(number: float) -> Fraction:
    """A number as a configuration spells it: 0.1 is a tenth."""
    return Fraction(str(number))


class CacheShare:
    """The KV cache by the meaning of the engine's fraction, and what the engine takes with it.

    ``least`` counts what is not derived at the low end of its interval: the most cache there can be.
    Where the engine's environment can ask for its older core, see :func:`least_shares`.
    """

    def __init__(self, workload: Workload, *, least: bool = False) -> None:
        self.workload, self.least = workload, least
        self.rollout = workload.rollout
        self.weights = engine_weight_bytes(workload)
        self.activations = step_bytes(workload) if least else engine_activation_bytes(workload)
        least_graphs, self.graphs, _ = graph_interval(workload)
        self.counted_graphs = 0
        if self.rollout.counts_graphs:  # they live within the fraction
            self.counted_graphs = least_graphs if least else self.graphs
        self.kernels = 0
        if self.rollout.fraction_of in _OF_OWN and self.rollout.own_process:
            self.kernels = ENGINE_KERNELS.low if least else ENGINE_KERNELS.typical
        self.buffers = sum(part.typical for part in engine_buffers(workload))
        parts, own = engine_process(workload), context(workload.cluster.gpu)
        self.process = sum(part.low if least else part.typical for part in parts)
        self.added = sum(part.low if least else part.typical for part in parts if part != own)
        self.card = workload.cluster.gpu.capacity_bytes

    @cached_property
    def trainer(self) -> int:
        """What the trainer holds when the engine starts; at least that without its communicators."""
        terms = trainer_at_start(self.workload)
        if self.least:
            return sum(term.low for term in terms if term.name != "communicators")
        return sum(term.bytes for term in terms)

    def share_of(self, size: int) -> int:
        """The engine's fraction of a size, rounded up."""
        fraction = _as_written(self.rollout.memory_fraction)
        return -(-fraction.numerator * int(size) // fraction.denominator)

    @cached_property
    def cache(self) -> int:
        """KV cache that the fraction leaves, see :func:`~tuner.memory.rollout.share.engine_cache_bytes`."""
        needed = self.weights + self.activations
        free = self.card - self.trainer - self.process if self.rollout.fraction_of in _OF_FREE else 0
        if self.rollout.fraction_of is FractionOf.STATIC_POOL:
            return self.share_of(free) - self.weights
        if self.rollout.fraction_of is FractionOf.FREE_AFTER_WEIGHTS:
            return self.share_of(free - needed)
        if self.rollout.fraction_of is FractionOf.TOTAL_OF_ALL:
            return self.share_of(self.card) - self.trainer - self.process - needed
        if self.rollout.fraction_of is FractionOf.OWN:
            return self.share_of(self.card) - self.added - needed - self.kernels
        return self.share_of(self.card) - needed - self.kernels - self.counted_graphs

    @property
    def formula(self) -> tuple[str, Symbols]:
        """The cache's formula with its numbers, as :meth:`cache` has it."""
        fraction, needed = ("f", self.rollout.memory_fraction), (("w", self.weights), ("a", self.activations))
        free = (("M", self.card), ("R", self.trainer), ("c", self.process)) if self._counts_trainer else ()
        kind = self.rollout.fraction_of
        if kind is FractionOf.STATIC_POOL:
            return "ceil(f (M - R - c)) - w", (fraction, *free, ("w", self.weights))
        if kind is FractionOf.FREE_AFTER_WEIGHTS:
            return "f (M - R - c - w - a)", (fraction, *free, *needed)
        if kind is FractionOf.TOTAL_OF_ALL:
            return "ceil(f M) - R - c - w - a", (fraction, *free, *needed)
        if kind is FractionOf.OWN:
            added = (("M", self.card), ("c_e", self.added))
            return "ceil(f M) - c_e - w - a - k", (fraction, *added, *needed, ("k", self.kernels))
        own = (fraction, ("M", self.card), *needed, ("k", self.kernels))
        if self.rollout.counts_graphs:
            return "ceil(f M) - w - a - k - g", (*own, ("g", self.graphs))
        return "ceil(f M) - w - a - k", own

    @property
    def _counts_trainer(self) -> bool:
        return self.rollout.fraction_of not in _OF_OWN

    @property
    def starts_free(self) -> bool:
        """Whether the trainer leaves free what vLLM demands at its start.

        Since 0.9.1 vLLM stops when less than its whole fraction is free.
        """
        rollout = self.rollout
        if rollout.fraction_of not in _OF_OWN or not rollout.checks_free or not rollout.colocated:
            return True
        early = self.kernels + (self.added if rollout.fraction_of is FractionOf.OWN else 0)  # after the check
        return self.share_of(self.card) <= self.card - self.trainer - self.process + early


_OF_FREE = (FractionOf.STATIC_POOL, FractionOf.FREE_AFTER_WEIGHTS)
_OF_OWN = (FractionOf.TOTAL, FractionOf.OWN)


def least_shares(workload: Workload) -> tuple[CacheShare, ...]:
    """The most cache that there can be, by each core that the engine may run.

    vLLM 0.8 and 0.9.0 have two, and ``VLLM_USE_V1=0``, or a backend or a format that the newer one
    lacks, picks the older one. Which of them runs no configuration tells.
    """
    cores = [workload]
    if workload.rollout.older_core is not None:
        cores.append(workload.with_rollout(**asdict(workload.rollout.older_core)))
    return tuple(CacheShare(core, least=True) for core in cores)


def engine_cache_bytes(workload: Workload) -> int:
    r"""KV cache that the fraction leaves; negative where it leaves none.

    .. math::
        f M - w - a - k \;[-\, g] \;\text{(vLLM since 0.11)}, \quad
        f M - c_e - w - a - k \;\text{(vLLM 0.7, 0.9.1 to 0.10)}, \quad
        f M - R - c - w - a \;\text{(vLLM 0.8, 0.9.0)}, \quad
        f F - w \;\text{(SGLang)}, \quad
        f (F - w - a) \;\text{(TensorRT-LLM, vLLM 0.6.3)}

    vLLM divides the whole card. Since 0.11 it subtracts what the engine itself has added since a
    snapshot that is taken when context and communicator exist, so these come on top of the fraction,
    and the kernels that it loads afterwards, :math:`k`, do not. Since 0.20 it subtracts an estimate of
    its CUDA graphs too, except by its second model runner, which estimates none: Qwen3 since 0.22,
    Llama and Mistral since 0.23, Qwen2-MoE and DeepSeek-V2 since 0.24. From 0.9.1 to 0.10, and in 0.7,
    the snapshot is taken before the communicator exists, which is what :math:`c_e` holds. The V1 core
    of 0.8 and 0.9.0 subtracts all that is in use, the trainer's weights included. verl's worker for
    0.6.3 takes a share of what is free after its profile run. SGLang takes a share of what is free at
    its start for weights and cache, TensorRT-LLM a share of what weights and activations leave.

    Source: vLLM ``v1/worker/gpu_worker.py`` (``init_device``, ``determine_available_memory``; 0.8.2 to
    0.24.0), ``v1/worker/gpu/model_runner.py`` (``profile_cudagraph_memory``; 0.20.2 to 0.24.0),
    ``worker/worker.py`` (``determine_num_available_blocks``; 0.7.3), verl 0.4.1
    ``third_party/vllm/vllm_v_0_6_3/worker.py`` (the same for 0.6.3), SGLang
    ``model_executor/model_runner.py`` (``profile_max_num_token``; 0.4.6, 0.5.8, 0.5.12), TensorRT-LLM
    ``_torch/pyexecutor/_util.py`` (``_cal_max_tokens``).
    """
    return CacheShare(workload).cache
