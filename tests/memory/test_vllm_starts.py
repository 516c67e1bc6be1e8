"""Starts of vLLM that were recorded, beside what the model says of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.gpus import find_gpu
from tuner.memory.cuda_graphs import captured_graphs, graph_interval
from tuner.memory.engine_memory import rollout_memory
from tuner.memory.overhead import ENGINE_BUFFERS, ENGINE_KERNELS, GRAPH_LAYER, GRAPH_PIECE, Constant
from tuner.memory.profile_run import engine_activation_bytes
from tuner.models import find_model
from tuner.units import MIB
from tuner.workload import Workload

DATA = Path(__file__).parents[2] / "docs" / "validation" / "data" / "vllm-0.24-starts-h200.json"
STARTS = json.loads(DATA.read_text(encoding="utf-8"))["starts"]
SECOND_RUNNER = "vllm.v1.worker.gpu.model_runner"


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


def steps(start: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {step["step"]: step for step in start["steps"]}


def used(step: dict[str, int]) -> int:
    return step["non_torch_bytes"] + step["reserved_bytes"]


def captured(start: dict[str, Any]) -> tuple[int, int]:
    """Bytes of the graphs: their pool, and what the driver keeps."""
    before, after = steps(start)["initialize_from_config"], steps(start)["capture_model"]
    pool, driver = (after[key] - before[key] for key in ("reserved_bytes", "non_torch_bytes"))
    return pool, driver


def lies_in(size: float, constant: Constant) -> bool:
    return constant.low <= size <= constant.high


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start["start"])
class TestRecordedStart:
    def test_the_cache_is_the_predicted_one(self, start: dict[str, Any]) -> None:
        assert rollout_memory(job(start)).kv_bytes == pytest.approx(start["available_bytes"], rel=0.005)

    def test_the_profile_run_takes_what_is_derived(self, start: dict[str, Any]) -> None:
        """But for cuBLAS' workspace of 32 MiB and the first runner's buffer of 132 rows of float32 logits."""
        left_out = 32 * MIB + 4 * 132 * 151_936
        derived = engine_activation_bytes(job(start))
        assert -0.1 * derived < start["activation_bytes"] - derived <= left_out + 8 * MIB

    def test_kernels_lie_in_their_interval(self, start: dict[str, Any]) -> None:
        assert lies_in(start["non_torch_bytes"], ENGINE_KERNELS)

    def test_graphs_lie_in_their_interval(self, start: dict[str, Any]) -> None:
        low, _, high = graph_interval(job(start))
        pool, driver = captured(start)
        assert low <= pool + driver <= high
        found = captured_graphs(job(start))
        least, most = (
            found.whole * found.layers * layer + found.pieced * (found.layers + 1) * piece
            for layer, piece in ((GRAPH_LAYER.low, GRAPH_PIECE.low), (GRAPH_LAYER.high, GRAPH_PIECE.high))
        )
        assert least <= driver <= most

    def test_buffers_lie_in_their_interval(self, start: dict[str, Any]) -> None:
        read, graphs = steps(start), sum(captured(start))
        on_top = used(read["generated"]) - used(read["context"]) - start["requested_bytes"]
        assert lies_in(on_top - graphs + start["graph_estimate_bytes"], ENGINE_BUFFERS)
