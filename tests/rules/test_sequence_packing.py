"""What packing is advised with, and where it is not."""

import json

import pytest

from tests.cli.runner import run
from tests.rules.generate import workloads
from tests.workloads import grpo_7b
from tuner.findings import Finding, Goal
from tuner.rules.case import Case
from tuner.rules.packing import packed
from tuner.rules.sequence import sequence_packing

pytestmark = pytest.mark.sampled(6)


def advised(**engine: object) -> Finding | None:
    return sequence_packing.check(Case.of(grpo_7b().with_actor_engine(packed=False, **engine), headroom=0.1))


def test_a_family_that_nobody_tested_is_named() -> None:
    tested, untested = advised(), advised(packing_tested=False)
    assert tested is not None
    assert untested is not None
    assert [note for note in untested.notes if note not in tested.notes] == [sequence_packing._UNTESTED]


def test_what_needs_padding_is_left_alone() -> None:
    finding = advised(packable=False)
    assert finding is None or finding.proposal is None or not finding.proposal.actor.engine.packed


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("0.7.1", "computes every sequence as if it had 2,048 tokens, whatever its length"),
        ("0.8.0", "as long as the longest of its micro-batch"),
    ],
)
def test_the_length_that_a_release_pads_to_is_named(release: str, said: str) -> None:
    options = ("--gpu", "h100-sxm", "--verl-version", release, "--full")
    told = run(
        *("advise", "docs/examples/qwen2.5-7b-grpo.yaml", *options),
        *("--", "trainer.n_gpus_per_node=8", "actor_rollout_ref.model.use_remove_padding=False"),
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=5",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=10",
    )
    assert said in " ".join(told.out.split())


@pytest.mark.parametrize(("release", "shorter"), [("0.7.1", False), ("0.9.1", True)])
def test_known_lengths_shorten_an_update_that_is_padded_to_the_longest(release: str, shorter: bool) -> None:
    """And leave its memory alone: a micro-batch may have a sequence of the maximum."""
    options = ("--gpu", "h100-sxm", "--output-format", "json", "--mean-prompt-length", "100")
    reports = [
        json.loads(
            run(
                *("advise", "docs/examples/qwen2.5-7b-grpo.yaml", "--verl-version", release, *options),
                *("--mean-response-length", mean, "--", "trainer.n_gpus_per_node=8"),
                "actor_rollout_ref.model.use_remove_padding=False",
            ).out
        )
        for mean in ("100", "900")
    ]
    short, long = (
        next(phase for phase in report["memory"]["phases"] if phase["phase"] == "update_actor")
        for report in reports
    )
    assert (short["seconds"] < long["seconds"]) is shorter
    assert short["peak_bytes"] == long["peak_bytes"]


def test_an_engine_that_packs_goes_on_where_another_setting_would_need_padding() -> None:
    job = grpo_7b().with_actor_engine(packed=True, packable=False)
    assert packed(job).actor.engine.packed
    assert not packed(job.with_actor_engine(packed=False)).actor.engine.packed
    assert packed(job.with_actor_engine(packed=False, packable=True)).actor.engine.packed


@pytest.mark.parametrize("seed", [0, 6])
def test_packing_that_only_memory_asks_for_is_not_told_as_a_gain_of_time(seed: int) -> None:
    """And names the pass that lacks memory, not the longest."""
    cases = [Case.of(workload, headroom=0.1) for workload in workloads(50, seed=seed)]
    advised = [(case, sequence_packing.check(case)) for case in cases]
    memory = [(case, told) for case, told in advised if told and told.rule.goal is Goal.MEMORY]
    assert memory
    for case, told in memory:
        assert told.phase is not None
        assert case.short(told.phase) is not None
        assert told.message.startswith(told.phase.value)
