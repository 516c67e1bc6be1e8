r"""What the rollout engine allocates, and what its memory fraction leaves for the KV cache.

Symbols: :math:`M` the card's memory, :math:`f` the engine's memory fraction, :math:`F` what is free when
the engine has started and loaded nothing, :math:`R` what the trainer holds then, :math:`w` the engine's
weights, :math:`a` what its profile run needs beyond them, :math:`g` CUDA graphs, :math:`c` context and
communicator of its process, :math:`k` the kernels that this process loads after it has begun to count.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import ceil

from msgspec import Struct
from msgspec.structs import asdict

from tuner.evidence import Evidence
from tuner.language import N_
from tuner.memory.ledger.formula import as_written
from tuner.memory.ledger.stated_terms import Size, bytes_of, stated
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.overhead import ENGINE_KERNELS
from tuner.memory.rollout.graphs import engine_graphs
from tuner.memory.rollout.kv_cache import kv_bytes_per_sequence
from tuner.memory.rollout.process import engine_buffers, process_parts
from tuner.memory.rollout.profile_run import engine_activations, least_activations
from tuner.memory.rollout.weights import engine_weights
from tuner.workload import FractionOf, Workload

SYMBOLS = {
    "M": "memory of the card",
    "K": "cache of one sequence of full length",
    "R": "what is on the card already when the engine starts: the trainer, a reward model",
    "S": "sequences that one GPU generates at once",
    "a": "what the engine's profile run needs beyond weights",
    "c": "context and communicator of the engine's process",
    "c_e": "communicator that the engine creates within its share",
    "f": "the engine's share of the memory",
    "g": "CUDA graphs",
    "k": "kernels that the engine's process loads after it has begun to count",
    "w": "weights of the rollout engine",
}

FRACTION_MEANS = {
    FractionOf.TOTAL: (
        N_("a share of the card for weights, activations, kernels and cache; its CUDA context is on top")
    ),
    FractionOf.TOTAL_OF_ALL: N_("a share of the card in which the trainer's memory at the start counts too"),
    FractionOf.OWN: N_("a share of the card for weights, activations, its communicator and cache"),
    FractionOf.STATIC_POOL: N_("a share of what is free at its start, for weights and cache alone"),
    FractionOf.FREE_AFTER_WEIGHTS: N_("a share of what is free after the weights, for the cache alone"),
}
"""What each engine takes its memory fraction for, in words."""


# -- what a fraction leaves for the cache ------------------------------------------------


def rest_of_share_bytes(*, f: float, M: int, w: int, a: int, k: int) -> int:
    """KV cache that vLLM's fraction leaves since 0.11; negative where it leaves none.

    vLLM divides the whole card. Since 0.11 it subtracts what the engine itself has added since a
    snapshot that is taken when context and communicator exist, so these come on top of the fraction,
    and the kernels that it loads afterwards, :math:`k`, do not.

    Source: vLLM ``v1/worker/gpu_worker.py`` (``init_device``, ``determine_available_memory``; 0.11 to 0.24).
    """
    return share_bytes(f=f, M=M) - w - a - k


def rest_beside_graphs_bytes(*, f: float, M: int, w: int, a: int, k: int, g: int) -> int:
    """KV cache that vLLM's fraction leaves where vLLM counts its CUDA graphs.

    Since 0.20 it subtracts an estimate of its CUDA graphs too, except by its second model runner, which
    estimates none: Qwen3 since 0.22, Llama and Mistral since 0.23, Qwen2-MoE and DeepSeek-V2 since 0.24.

    Source: vLLM ``v1/worker/gpu/model_runner.py`` (``profile_cudagraph_memory``; 0.20.2 to 0.24.0).
    """
    return rest_of_share_bytes(f=f, M=M, w=w, a=a, k=k) - g


def rest_of_own_bytes(*, f: float, M: int, c_e: int, w: int, a: int, k: int) -> int:
    """KV cache that vLLM's fraction leaves in 0.7 and from 0.9.1 to 0.10.

    The snapshot is taken before the communicator exists, which is what :math:`c_e` holds.

    Source: vLLM ``v1/worker/gpu_worker.py`` (``determine_available_memory``; 0.9.1 to 0.10),
    ``worker/worker.py`` (``determine_num_available_blocks``; 0.7.3).
    """
    return share_bytes(f=f, M=M) - c_e - w - a - k


def rest_beside_trainer_bytes(*, f: float, M: int, R: int, c: int, w: int, a: int) -> int:
    """KV cache that vLLM's fraction leaves in 0.8 and 0.9.0.

    The V1 core subtracts all that is in use, the trainer's weights included.

    Source: vLLM ``v1/worker/gpu_worker.py`` (``determine_available_memory``; 0.8.2 to 0.9.0).
    """
    return share_bytes(f=f, M=M) - R - c - w - a


def static_pool_bytes(*, f: float, M: int, R: int, c: int, w: int) -> int:
    """KV cache that SGLang's fraction leaves: a share of what is free at its start, for weights and cache.

    Source: SGLang ``model_executor/model_runner.py`` (``profile_max_num_token``; 0.4.6, 0.5.8, 0.5.12).
    """
    return share_bytes(f=f, M=M - R - c) - w


def share_of_rest_bytes(*, f: float, M: int, R: int, c: int, w: int, a: int) -> int:
    """KV cache of TensorRT-LLM and of vLLM 0.6.3: a share of what weights and activations leave.

    verl's worker for vLLM 0.6.3 takes a share of what is free after its profile run.

    Source: TensorRT-LLM ``_torch/pyexecutor/_util.py`` (``_cal_max_tokens``), verl 0.4.1
    ``third_party/vllm/vllm_v_0_6_3/worker.py``.
    """
    return share_bytes(f=f, M=M - R - c - w - a)


def grown_bytes(*, S: int, K: int) -> int:
    """KV cache of transformers' ``generate``, which grows with all sequences of a rank at once.

    Source: verl 0.3.0.post1 to 0.5.0 ``workers/rollout/hf_rollout.py`` (``use_cache=True``; one chunk of all
    prompts unless ``micro_batch_size`` is set).
    """
    return S * K


def share_bytes(*, f: float, M: int) -> int:
    """The engine's fraction of a size, rounded up.

    Source: vLLM ``v1/worker/utils.py`` (``request_memory``).
    """
    return ceil(as_written(f) * M)


_CACHE: dict[FractionOf, Size] = {
    FractionOf.TOTAL: rest_of_share_bytes,
    FractionOf.TOTAL_OF_ALL: rest_beside_trainer_bytes,
    FractionOf.OWN: rest_of_own_bytes,
    FractionOf.STATIC_POOL: static_pool_bytes,
    FractionOf.FREE_AFTER_WEIGHTS: share_of_rest_bytes,
}


class EngineSizes(Struct, frozen=True, kw_only=True):
    """Bytes that the engine takes beside its cache, whatever its fraction is."""

    weights: int
    activations: int
    graphs: int
    counted_graphs: int
    kernels: int
    buffers: int
    process: int
    added: int  # of the process, after its start


def sizes_of(workload: Workload, *, least: bool = False) -> EngineSizes:
    """What an engine takes, at the low end of what is not derived where the ``least`` is asked for."""
    return _sizes(workload.generating.standing, least=least)


@lru_cache(maxsize=256)  # proposals try one fraction after the other, or leave the engine as it is
def _sizes(workload: Workload, *, least: bool) -> EngineSizes:
    rollout, graphs, buffers = workload.generator, engine_graphs(workload), engine_buffers(workload)
    if rollout.is_trainer:
        return EngineSizes(
            weights=0, activations=0, graphs=0, counted_graphs=0, kernels=0, buffers=0, process=0, added=0
        )
    kernels = 0
    if rollout.fraction_of in _OF_OWN and rollout.own_process:
        kernels = ENGINE_KERNELS.low if least else ENGINE_KERNELS.typical
    parts = process_parts(workload)
    process = {symbol: part.low if least else part.typical for symbol, part in parts.items()}
    return EngineSizes(
        weights=int(engine_weights(workload).bytes),  # explained by its own term
        activations=least_activations(workload) if least else engine_activations(workload).bytes,
        graphs=graphs.bytes,
        counted_graphs=graphs.low if least else graphs.bytes,
        kernels=kernels,
        buffers=0 if buffers is None else buffers.bytes,
        process=sum(process.values()),
        added=sum(size for symbol, size in process.items() if symbol != "c_x"),
    )


class CacheShare:
    """The KV cache by the meaning of the engine's fraction, and what the engine takes with it.

    ``at_start`` is what others hold on the card when the engine starts. ``least`` counts what is not derived
    at the low end of its interval: the most cache there can be.
    """

    def __init__(self, workload: Workload, at_start: Sequence[Term], *, least: bool = False) -> None:
        self.at_start, self.least = at_start, least
        self.rollout = workload.generator
        sizes = sizes_of(workload, least=least)
        self.weights, self.activations = sizes.weights, sizes.activations
        self.graphs, self.counted_graphs = sizes.graphs, sizes.counted_graphs
        self.kernels, self.buffers = sizes.kernels, sizes.buffers
        self.process, self.added = sizes.process, sizes.added
        self.card = workload.cluster.gpu.capacity_bytes
        self.grown = _grown(workload) if self.rollout.is_trainer else {}

    @cached_property
    def trainer(self) -> int:
        """What others hold when the engine starts; at least that without the trainer's communicators."""
        if self.least:
            return sum(term.low for term in self.at_start if term.name != "communicators")
        return sum(term.bytes for term in self.at_start)

    @property
    def size(self) -> Size:
        """The function that says what the fraction leaves for the cache, or how far it grows without one."""
        if self.grown:
            return grown_bytes
        if self.rollout.fraction_of is FractionOf.TOTAL and self.rollout.counts_graphs:
            return rest_beside_graphs_bytes
        return _CACHE[self.rollout.fraction_of]

    @property
    def numbers(self) -> dict[str, float]:
        """The symbols of the cache."""
        if self.grown:
            return self.grown
        counts_trainer = self.rollout.fraction_of not in _OF_OWN
        return {
            "f": self.rollout.memory_fraction,
            "M": self.card,
            "R": self.trainer if counts_trainer else 0,
            "c": self.process,
            "c_e": self.added,
            "w": self.weights,
            "a": self.activations,
            "k": self.kernels,
            "g": self.counted_graphs,
        }

    @cached_property
    def cache(self) -> int:
        """KV cache that the fraction leaves; 0 or less where it leaves none."""
        return _cache_bytes(self.size, tuple(self.numbers), *self.numbers.values())

    @cached_property
    def cache_term(self) -> Term | None:
        """The KV cache; None where the fraction leaves none."""
        if self.cache <= 0:
            return None
        return _cache_term(self.size, tuple(self.numbers), *self.numbers.values())

    @property
    def starts_free(self) -> bool:
        """Whether the trainer leaves free what vLLM demands at its start.

        Since 0.9.1 vLLM stops when less than its whole fraction is free.
        """
        rollout = self.rollout
        if (
            rollout.is_trainer
            or rollout.fraction_of not in _OF_OWN
            or not rollout.checks_free
            or not rollout.colocated
        ):
            return True
        early = self.kernels + (self.added if rollout.fraction_of is FractionOf.OWN else 0)  # after the check
        requested_bytes = share_bytes(f=rollout.memory_fraction, M=self.card)
        return requested_bytes <= self.card - self.trainer - self.process + early


_OF_OWN = (FractionOf.TOTAL, FractionOf.OWN)


# Beside most trainers an engine's cache is the same. A number that records what it was computed from is no
# plain one that it equals.
@lru_cache(maxsize=512, typed=True)
def _cache_bytes(size: Size, names: tuple[str, ...], *numbers: float) -> int:
    return bytes_of(size, dict(zip(names, numbers, strict=True)))


@lru_cache(maxsize=512, typed=True)
def _cache_term(size: Size, names: tuple[str, ...], *numbers: float) -> Term:
    by_name = dict(zip(names, numbers, strict=True))
    return stated(Item.KV_CACHE, "kv_cache", size, by_name, evidence=Evidence.MODELLED)


def _grown(workload: Workload) -> dict[str, float]:
    """The symbols of a cache that grows with what is generated."""
    rollout, batch = workload.generator, workload.batch
    sequence = kv_bytes_per_sequence(workload.model, rollout, batch.sequence_tokens)
    return {"S": ceil(batch.round_sequences / rollout.replicas), "K": sequence}


def least_cores(workload: Workload, at_start: Sequence[Term]) -> tuple[CacheShare, ...]:
    """The most cache that there can be, by each core that the engine may run.

    vLLM 0.8 and 0.9.0 have two, and ``VLLM_USE_V1=0``, or a backend or a format that the newer one
    lacks, picks the older one. Which of them runs no configuration tells.
    """
    cores = [workload]
    if workload.generator.older_core is not None:
        cores.append(workload.with_rollout(**asdict(workload.generator.older_core)))
    return tuple(CacheShare(core, at_start, least=True) for core in cores)
