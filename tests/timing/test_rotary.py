"""Rotating queries and keys under Megatron, against what its code does to each sequence."""

import json

import pytest

from tests import workloads
from tests.cli.runner import ROOT
from tuner.batching import pass_sequences
from tuner.timing.assumptions import (
    BARE_LAUNCH_S,
    GRAPH_LAUNCH_S,
    READ_NUMBER_S,
    ROTARY_KERNELS,
    ROTATED_PIECE_S,
)
from tuner.timing.job import TimedPasses
from tuner.timing.megatron import most_layers, pass_parts, rotary_seconds, rotated_pieces
from tuner.workload import Checkpointing, Phase, Workload

BASE = workloads.grpo_32b_megatron().with_actor_engine(rotates_each=True, checkpointing=Checkpointing.NONE)


def test_a_launch_takes_the_mean_of_the_machines_where_it_was_measured() -> None:
    table = json.loads((ROOT / "profiles" / "operators" / "h100-sxm.json").read_text(encoding="utf-8"))
    measured = [row["kernel_s"] for row in table["host_launch"]]
    assert len(measured) >= 2
    assert pytest.approx(sum(measured) / len(measured), rel=0.01) == BARE_LAUNCH_S
    assert ROTATED_PIECE_S == ROTARY_KERNELS * BARE_LAUNCH_S


def job(workload: Workload, phase: Phase = Phase.UPDATE_ACTOR) -> TimedPasses:
    step_pass = next(one for one in workload.passes() if one.phase is phase)
    return TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)


def test_each_sequence_is_rotated_by_itself_unless_a_kernel_or_a_later_release_takes_all() -> None:
    one = job(BASE)
    of_micro_batch = pass_sequences(one.batch, one.step_pass) / one.micro.count
    assert rotated_pieces(one) == 2 * of_micro_batch > 2
    assert rotated_pieces(job(BASE.with_actor_engine(rotates_each=False))) == 2
    fused = job(BASE.with_actor_engine(fused_rotary=True))
    assert rotated_pieces(fused) == rotary_seconds(fused) == rotary_seconds(fused, backward=True) == 0


def test_the_gpu_waits_forward_for_each_piece_and_pauses_backward() -> None:
    one = job(BASE)
    pieces = rotated_pieces(one)
    assert rotary_seconds(one) == pytest.approx(2 * READ_NUMBER_S + pieces * ROTATED_PIECE_S)
    assert rotary_seconds(one, backward=True) >= pieces * ROTARY_KERNELS * GRAPH_LAUNCH_S


@pytest.mark.parametrize("phase", [Phase.OLD_LOG_PROB, Phase.UPDATE_ACTOR])
@pytest.mark.parametrize("recomputes", [False, True])
def test_nothing_hides_it(phase: Phase, recomputes: bool) -> None:
    """Of a layer that is recomputed it is done twice."""
    how = Checkpointing.FULL if recomputes else Checkpointing.NONE
    each, fused = (
        job(BASE.with_actor_engine(checkpointing=how, fused_rotary=on), phase) for on in (False, True)
    )
    forward = 2 if recomputes and each.trains else 1
    added = forward * rotary_seconds(each)
    if each.trains:
        added += rotary_seconds(each, backward=True)
    longer = pass_parts(each)["launch"] - pass_parts(fused)["launch"]
    assert longer == pytest.approx(each.micro.count * most_layers(each) * added)
