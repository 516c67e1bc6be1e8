"""Seconds of the host for a layer with Liger's kernels: against their record, and in a pass."""

import json
from statistics import median
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.measured import RECORDED
from tuner.timing import assumptions as assume
from tuner.timing import step_time
from tuner.timing.host import host_seconds
from tuner.timing.job import TimedPasses, kernels_seconds
from tuner.workload import Checkpointing, Phase

READINGS: list[dict[str, Any]] = json.loads((RECORDED / "liger-host.json").read_text())["readings"]
PLAIN, LIGER = "transformers layer", "with Liger's kernels"
COLUMNS = ("forward_s", "kept_forward_s", "kept_s")
OPERATOR_S, TRITON_S = assume.BARE_LAUNCH_S - 3.5e-6, 13e-6  # beyond what is in the readings


def beside_a_gpu(rows: list[dict[str, Any]], what: str, column: str, *, recomputes: bool) -> float:
    """Seconds of a layer with its launches: the median over runs."""
    place = COLUMNS.index(column)
    return median(
        row[column] + OPERATOR_S * row["operators"][place] + TRITON_S * row["triton_launches"][place]
        for row in rows
        if (row["what"], row["recomputes"]) == (what, recomputes)
    )


@pytest.mark.parametrize(
    ("column", "recomputes", "typical"),
    [
        ("forward_s", False, assume.LIGER_FORWARD),
        ("kept_s", False, assume.LIGER_KEPT),
        ("kept_forward_s", False, assume.LIGER_KEPT_FORWARD),
        ("kept_s", True, assume.LIGER_RECOMPUTED),
        ("kept_forward_s", True, assume.LIGER_RECOMPUTED_FORWARD),
    ],
)
def test_factors_lie_between_two_releases_of_liger(column: str, recomputes: bool, typical: float) -> None:
    old, new = (
        beside_a_gpu(reading["rows"], LIGER, column, recomputes=recomputes)
        / beside_a_gpu(reading["rows"], PLAIN, column, recomputes=recomputes)
        for reading in READINGS
    )
    assert old < new
    assert typical == pytest.approx((old + new) / 2, abs=0.01)


def test_fused_layers_launch_a_quarter_of_the_kernels_and_keep_the_host_as_busy() -> None:
    rows = READINGS[0]["rows"]
    plain, liger = (next(row for row in rows if row["what"] == what) for what in (PLAIN, LIGER))
    assert liger["operators"][0] + liger["triton_launches"][0] < plain["operators"][0] / 2
    for checkpointing in (Checkpointing.FULL, Checkpointing.NONE):
        for trains, backward in ((False, False), (True, False), (True, True)):
            fused, bare = (
                host_of(fused_layers=on, checkpointing=checkpointing, trains=trains, backward=backward)
                for on in (True, False)
            )
            assert 0.75 < fused / bare < 1.1


def host_of(*, trains: bool, backward: bool, **engine: Any) -> float:
    workload = workloads.grpo_7b().with_actor_engine(**engine)
    step_pass = replace(workload.actor_update, training=trains)
    job = TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)
    return kernels_seconds(job, backward=backward)


def test_what_hooks_take_stays_as_it_is() -> None:
    hooked, plain = (
        host_seconds("h100-sxm", engine, query_key_norms=False, ranks=8).forward_s
        for engine in ("fsdp2", "plain")
    )
    fused = host_of(trains=False, backward=False, fused_layers=True)
    assert fused == pytest.approx(hooked - plain + assume.LIGER_FORWARD * plain)


def test_a_pass_that_waits_for_its_host_is_no_shorter_with_fused_layers() -> None:
    small = workloads.grpo_0_5b().with_actor(log_prob=workloads.dynamic(4096))
    fused, bare = (
        step_time(small.with_actor_engine(fused_layers=on), concurrent_sequences=256).phase(
            Phase.OLD_LOG_PROB
        )
        for on in (True, False)
    )
    assert fused is not None and bare is not None
    assert fused.seconds >= bare.seconds
