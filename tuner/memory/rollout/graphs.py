r"""CUDA graphs of the rollout engine: what the driver keeps for each of them, and the pool of their tensors.

Symbols: :math:`L` layers of one GPU, :math:`n_w` sizes that are captured whole, :math:`n_p` sizes that are
captured in pieces, :math:`m` the largest size.
"""

from functools import lru_cache, partial
from math import ceil

from msgspec import Struct

from tuner.memory.ledger.formula import ceil_div, smallest
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.constant import heuristic
from tuner.memory.process.overhead import ASCEND_GRAPHS, GRAPH_LAYER, GRAPH_PIECE, GRAPH_POOL
from tuner.serving.graphs import capture_sizes
from tuner.serving.vllm import LARGEST_GRAPH
from tuner.workload import RolloutEngine, Workload

SYMBOLS = {
    "L": "layers of one GPU",
    "g": "pool of the tensors of CUDA graphs",
    "g_p": "one graph of what lies between two attentions",
    "g_w": "one layer of a whole graph",
    "m": "largest size that is captured",
    "m_0": "largest size of vLLM's own list",
    "n_p": "sizes that are captured in pieces",
    "n_w": "sizes that are captured whole",
}


class Graphs(Struct, frozen=True, kw_only=True):
    """How much is captured on one GPU."""

    layers: int
    whole: int  # sizes, each a graph of all layers
    pieced: int  # sizes, each a graph for every stretch between two attentions
    largest: int  # sequences or tokens of the largest size


def captured_graphs(workload: Workload) -> Graphs:
    """What the engine captures: nothing without CUDA graphs.

    vLLM captures every size in pieces, for steps that read prompts as well, and sizes up to the sequences
    that it runs once more as a whole, for steps that only decode. Its own list goes up to twice these
    sequences, at most 512: 1, 2, 4, then in steps of 8 up to 256 and of 16 beyond.

    Source: vLLM ``config/compilation.py`` (``cudagraph_capture_sizes``, ``CUDAGraphMode``; 0.13.0, 0.24.0).
    """
    rollout = workload.generator
    layers = ceil(workload.model.layers / rollout.pipeline_parallel)
    sizes = capture_sizes(rollout)
    in_pieces = rollout.engine is RolloutEngine.VLLM
    whole = [size for size in sizes if size <= rollout.max_sequences] if in_pieces else sizes
    return Graphs(
        layers=layers,
        whole=len(whole),
        pieced=len(sizes) if in_pieces else 0,
        largest=max(sizes, default=0),
    )


def graph_bytes(*, g: int, m: int, m_0: int, n_w: int, L: int, g_w: int, n_p: int, g_p: int) -> int:
    """CUDA graphs of the rollout engine.

    Not derived: what the driver keeps for a graph no source tells. It grows with the kernels in it, and each
    graph of a piece has some of its own. All sizes share one pool, which holds the tensors of the largest.

    Source: :data:`~tuner.memory.process.overhead.GRAPH_LAYER`,
    :data:`~tuner.memory.process.overhead.GRAPH_PIECE`, :data:`~tuner.memory.process.overhead.GRAPH_POOL`;
    vLLM 0.24 ``compilation/piecewise_backend.py``.
    """
    return ceil_div(g * smallest(m, m_0), m_0) + n_w * L * g_w + n_p * (L + 1) * g_p


def engine_graphs(workload: Workload, *, counted: bool = False) -> Term:
    """The engine's CUDA graphs; ``counted`` where the cache is smaller by as much as they are larger."""
    captured = captured_graphs(workload)
    if workload.cluster.gpu.is_ascend:
        return _ascend_graphs(captured.largest, counted=counted)
    return _graphs(captured.layers, captured.whole, captured.pieced, captured.largest, counted=counted)


@lru_cache(maxsize=64)
def _ascend_graphs(largest: int, *, counted: bool) -> Term:
    size = partial(graph_bytes, n_w=0, L=0, g_w=0, n_p=0, g_p=0)
    numbers = {"m": largest, "m_0": LARGEST_GRAPH}
    return heuristic(Item.ENGINE, "engine_graphs", size, {"g": ASCEND_GRAPHS}, numbers, exact_sum=counted)


# Most proposals leave the graphs as they are. Typed: a recorded number of layers is not a plain one.
@lru_cache(maxsize=256, typed=True)
def _graphs(layers: int, whole: int, pieced: int, largest: int, *, counted: bool) -> Term:
    numbers = {"m": largest, "m_0": LARGEST_GRAPH, "n_w": whole, "n_p": pieced, "L": layers}
    constants = {"g": GRAPH_POOL, "g_w": GRAPH_LAYER, "g_p": GRAPH_PIECE}
    return heuristic(Item.ENGINE, "engine_graphs", graph_bytes, constants, numbers, exact_sum=counted)
