"""What a rollout engine captures, and what its CUDA graphs take."""

import pytest

from tests import workloads
from tuner.memory.process.overhead import GRAPH_LAYER, GRAPH_PIECE, GRAPH_POOL
from tuner.memory.rollout.graphs import captured_graphs, engine_graphs
from tuner.workload import RolloutEngine, Workload


def job(**changes: object) -> Workload:
    """7B, 28 layers."""
    return workloads.grpo_7b().with_rollout(**{"max_sequences": 256, "capture_sizes": None, **changes})


def _interval(workload: Workload) -> tuple[int, int, int]:
    term = engine_graphs(workload)
    return term.low, term.bytes, term.high


@pytest.mark.parametrize(
    ("sequences", "pieced", "whole", "largest"),
    [
        (256, 51, 35, 512),  # as vLLM 0.24 said: PIECEWISE=51 (largest=512), FULL=35 (largest=256)
        (512, 51, 51, 512),
        (1024, 51, 51, 512),
        (64, 19, 11, 128),
        (1, 2, 1, 2),
    ],
)
def test_the_engines_own_list(sequences: int, pieced: int, whole: int, largest: int) -> None:
    found = captured_graphs(job(max_sequences=sequences))
    assert (found.pieced, found.whole, found.largest, found.layers) == (pieced, whole, largest, 28)


def test_a_given_list_is_taken_as_it_is() -> None:
    found = captured_graphs(job(capture_sizes=(1, 2, 4, 8, 512)))
    assert (found.pieced, found.whole, found.largest) == (5, 4, 512)
    assert _interval(job(capture_sizes=())) == (0, 0, 0)


def test_graphs_of_other_engines_are_whole() -> None:
    found = captured_graphs(job(engine=RolloutEngine.SGLANG))
    assert found.pieced == 0 and found.whole == 51


def test_their_sum() -> None:
    expected = GRAPH_POOL.typical + 35 * 28 * GRAPH_LAYER.typical + 51 * 29 * GRAPH_PIECE.typical
    assert _interval(job())[1] == expected


def test_every_stage_of_a_pipeline_captures_its_own_layers() -> None:
    assert captured_graphs(job(pipeline_parallel=2)).layers == 14


@pytest.mark.parametrize("changes", [{"cuda_graphs": False}, {"engine": RolloutEngine.TRANSFORMERS}])
def test_what_captures_nothing_takes_nothing(changes: dict[str, object]) -> None:
    assert _interval(job(**changes)) == (0, 0, 0)


def test_more_sizes_take_more() -> None:
    few, many = job(capture_sizes=(1, 2, 4, 8, 16, 32)), job()
    assert all(a < b for a, b in zip(_interval(few), _interval(many), strict=True))
    low, typical, high = _interval(many)
    assert low < typical < high
