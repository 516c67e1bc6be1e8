"""Starts of vLLM that were recorded, beside what the model says of them."""

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.gpus import find_gpu
from tuner.memory.process.constant import Constant
from tuner.memory.process.overhead import ENGINE_BUFFERS, ENGINE_KERNELS, GRAPH_LAYER, GRAPH_PIECE, GRAPH_POOL
from tuner.memory.rollout.capacity import rollout_memory
from tuner.memory.rollout.graphs import captured_graphs, engine_graphs
from tuner.memory.rollout.profile_run import engine_activations
from tuner.models import find_model
from tuner.units import KIB, MIB
from tuner.workload import Workload

MORE_SEQUENCES = ("qwen2.5-1.5b", "qwen2.5-1.5b-512")
DOCS = Path(__file__).parents[2] / "docs"
DATA = DOCS / "validation" / "data" / "vllm-0.24-starts-h200.json"
STARTS = json.loads(DATA.read_text(encoding="utf-8"))["starts"]
SECOND_RUNNER = "vllm.v1.worker.gpu.model_runner"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What makes the table of these starts."""
    monkeypatch.syspath_prepend(DOCS / "_ext")
    return import_module("engine_starts")


def job(start: dict[str, Any]) -> Workload:
    """The rollout that was started, on the card that it was started on."""
    base = workloads.grpo_0_5b()
    cluster = replace(base.cluster, gpu=find_gpu("h200"), gpus_per_node=1, nodes=1)
    return replace(base, model=find_model(start["model"]), cluster=cluster).with_rollout(
        memory_fraction=0.5,
        max_sequences=start["sequences"],
        max_batched_tokens=8192,
        capture_sizes=None,
        cuda_graphs=True,
        sampler_bytes=_sampler_bytes(start),
        counts_graphs=start["runner"] != SECOND_RUNNER,
        tunes_at_start=start["compiled"] == "anew",
        gpus=1,
    )


def _sampler_bytes(start: dict[str, Any]) -> int:
    if start["runner"] == SECOND_RUNNER:
        return 6
    return 18 if start["logprobs_mode"] == "processed_logprobs" else 14


def lies_in(size: float, constant: Constant) -> bool:
    return constant.low <= size <= constant.high


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start["start"])
class TestRecordedStart:
    def test_the_cache_is_the_predicted_one(self, start: dict[str, Any]) -> None:
        assert rollout_memory(job(start)).kv_bytes == pytest.approx(start["available_bytes"], rel=0.005)

    def test_the_profile_run_takes_what_is_derived(self, start: dict[str, Any]) -> None:
        """But for cuBLAS' workspace of 32 MiB and the first runner's buffer of 132 rows of float32 logits."""
        left_out = 32 * MIB + 4 * 132 * 151_936
        derived = engine_activations(job(start)).bytes
        assert -0.1 * derived < start["activation_bytes"] - derived <= left_out + 8 * MIB

    def test_kernels_lie_in_their_interval(self, start: dict[str, Any]) -> None:
        assert lies_in(start["non_torch_bytes"], ENGINE_KERNELS)

    def test_graphs_lie_in_their_interval(self, start: dict[str, Any], page: ModuleType) -> None:
        term = engine_graphs(job(start))
        found, graphs = page.step_differences(start), captured_graphs(job(start))
        assert term.low <= found.pool + found.driver <= term.high
        assert lies_in(found.pool, GRAPH_POOL)
        whole = graphs.whole * graphs.layers * GRAPH_LAYER.typical
        piece = (found.driver - whole) / (graphs.pieced * (graphs.layers + 1))
        assert 135 * KIB < piece < 144 * KIB
        assert lies_in(piece, GRAPH_PIECE)

    def test_buffers_lie_in_their_interval(self, start: dict[str, Any], page: ModuleType) -> None:
        found = page.step_differences(start)
        assert lies_in(found.awake, ENGINE_BUFFERS)
        assert found.asleep is None or lies_in(found.asleep, ENGINE_BUFFERS)


def test_the_page_has_a_row_for_every_start(page: ModuleType) -> None:
    rows = [page._row(start) for start in STARTS]
    assert rows[-1] == ["``qwen2.5-1.5b``", "803", "238", "310", "128", "234", "574", "588"]
    assert rows[0][0].endswith("¹") and rows[6][0].endswith("² ¹") and rows[0][-1] == ""


def test_a_layer_of_a_whole_graph_takes_what_its_source_says(page: ModuleType) -> None:
    """16 more of 28 layers, and 35 of 28 layers of another engine: what the driver keeps, no pool."""
    few, many = (
        page.step_differences(next(start for start in STARTS if start["start"] == name))
        for name in MORE_SEQUENCES
    )
    assert (many.driver - few.driver) / (16 * 28) == pytest.approx(GRAPH_LAYER.typical, rel=0.05)
    recorded = json.loads((DATA.parent / "overhead-h200.json").read_text(encoding="utf-8"))
    (probe,) = [one for one in recorded["probes"] if one["probe"] == "cuda-graphs-qwen2.5-7b"]
    before = next(step for step in probe["steps"] if step["step"] == "warm-up")
    unfused = probe["steps"][-1]["non_torch_bytes"] - before["non_torch_bytes"]
    assert GRAPH_LAYER.typical < unfused / (35 * 28) <= GRAPH_LAYER.high
