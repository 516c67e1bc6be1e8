"""Seconds of the host for a layer of Megatron-Core: against their record, by direction, by collectives."""

import json
from statistics import mean
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.measured import RECORDED
from tuner.timing import assumptions as assume
from tuner.timing.host import host_seconds
from tuner.timing.host_of_libraries import host_of_megatron
from tuner.timing.job import TimedPasses, kernels_seconds
from tuner.timing.megatron import most_layers, pass_parts
from tuner.workload import Checkpointing, Workload

RECORD: list[dict[str, Any]] = json.loads((RECORDED / "megatron-host.json").read_text())["rows"]
PRODUCTS = ("torch.Linear", "te.Linear")
MEGATRON, TRANSFORMERS = "Megatron-Core layer", "transformers layer"
BASE = workloads.grpo_32b_megatron().with_actor_engine(fused_rotary=True)


def job(workload: Workload, *, trains: bool = True) -> TimedPasses:
    step_pass = replace(workload.actor_update, training=trains)
    return TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)


def on_tensor_ranks(ranks: int, **engine: Any) -> TimedPasses:
    parallel = replace(BASE.actor.engine.parallel, tensor=ranks)
    return job(BASE.with_actor_engine(parallel=parallel, **engine))


def recorded(what: str, column: str, *, recomputes: bool) -> list[float]:
    return [row[column] for row in RECORD if row["what"] == what and row.get("recomputes") is recomputes]


@pytest.mark.parametrize(
    ("column", "recomputes", "typical"),
    [
        ("forward_s", False, assume.MEGATRON_FORWARD),
        ("kept_s", False, assume.MEGATRON_KEPT),
        ("kept_forward_s", False, assume.MEGATRON_KEPT_FORWARD),
        ("kept_s", True, assume.MEGATRON_RECOMPUTED),
        ("kept_forward_s", True, assume.MEGATRON_RECOMPUTED_FORWARD),
    ],
)
def test_factors_lie_between_what_was_recorded_and_what_is_published(
    column: str, recomputes: bool, typical: float
) -> None:
    """Halfway: from 0.35 of what modules add on the processor, up to all of it."""
    here, plain = (recorded(what, column, recomputes=recomputes) for what in (MEGATRON, TRANSFORMERS))
    assert len(here) == len(plain) == 6
    most = mean(one / other for one, other in zip(here, plain, strict=True))
    least = 1 + 0.35 * (most - 1)
    assert typical == pytest.approx((least + most) / 2, abs=0.06)


def test_a_third_of_what_a_product_adds_on_the_processor_is_published_of_gpus() -> None:
    """NVIDIA/TransformerEngine #2053 does not say whether gradients were asked for: the mean of both."""
    shares = []
    for column in ("forward_s", "kept_forward_s"):
        torchs, engines = (mean(row[column] for row in RECORD if row["what"] == name) for name in PRODUCTS)
        shares.append((99.66 / 37.08 - 1) / (engines / torchs - 1))
    assert mean(shares) == pytest.approx(0.35, abs=0.03)


def test_modules_need_more_of_the_host_than_plain_layers_though_they_launch_less() -> None:
    one = on_tensor_ranks(1, checkpointing=Checkpointing.NONE)
    gpu, ranks = one.cluster.gpu.name, one.engine.parallel.gpus
    plain = host_seconds(gpu, "plain", query_key_norms=False, ranks=ranks)
    both = sum(kernels_seconds(one, backward=backward) for backward in (False, True))
    assert both == pytest.approx(assume.MEGATRON_KEPT * plain.kept_s)
    assert host_of_megatron(gpu, query_key_norms=True, ranks=ranks).kept_s > both


@pytest.mark.parametrize("recomputes", [False, True])
def test_the_host_calls_the_collectives_of_tensor_parallelism(recomputes: bool) -> None:
    how = Checkpointing.FULL if recomputes else Checkpointing.NONE
    one, two, four = (on_tensor_ranks(ranks, checkpointing=how) for ranks in (1, 2, 4))
    for backward in (False, True):
        alone, shared, wider = (kernels_seconds(each, backward=backward) for each in (one, two, four))
        calls = {(False, False): 4, (True, False): 6, (False, True): 4, (True, True): 10}
        assert shared - alone == pytest.approx(calls[backward, recomputes] * assume.COLLECTIVE_CALL_S)
        assert wider == shared


def test_a_backward_direction_that_keeps_the_gpu_busy_makes_up_for_no_forward_one() -> None:
    """The host reads the loss between them."""
    kept = on_tensor_ranks(2, checkpointing=Checkpointing.NONE)
    idle = replace(kept.compute, forward=0.0, backward=1.0)
    vars(kept)["compute"] = idle
    waiting = pass_parts(kept)["launch"] / kept.micro.count
    assert waiting > 0.5 * most_layers(kept) * kernels_seconds(kept, backward=False)
