"""What is lifted before anything is priced, what is left to the user, and what seconds are compared with."""

import pytest
from msgspec.structs import replace

from tests.readings import HEADROOM, advice_of
from tests.rules.test_advise import finding
from tests.workloads import dynamic, grpo_7b, static
from tuner.advise import Advice, Recommendation, Verdict
from tuner.advise.numerics import numerics
from tuner.findings import Finding, Goal, Numerics, Severity
from tuner.rules.case import Case
from tuner.workload import Phase, Workload


def refusing(name: str, *overrides: str, numerics: Numerics = Numerics.EXACT) -> Finding:
    said = finding(name, None, severity=Severity.ERROR, goal=Goal.CORRECTNESS)
    return replace(said, rule=replace(said.rule, refuses=True, numerics=numerics), overrides=overrides)


def named(advice: Advice, name: str) -> Recommendation:
    return next(item for item in advice.recommendations if item.finding.rule.name == name)


def averaging(workload: Workload) -> Workload:
    return workload.with_batch(loss_averages_micro_batches=True)


class TestRefusals:
    def test_come_before_any_talk_of_memory(self) -> None:
        advice = advice_of(grpo_7b(), [refusing("assert", "size=4")])
        assert advice.verdict is Verdict.WILL_NOT_START
        assert advice.memory_verdict is Verdict.FITS
        assert [refusal.finding.rule.name for refusal in advice.refusals] == ["assert"]
        assert advice.combination is not None
        assert advice.combination.overrides == ("size=4",)

    def test_one_that_nothing_lifts_leaves_nothing_to_compare_with(self) -> None:
        fuse = finding("fuse", grpo_7b().with_actor_engine(fused_layers=True))
        advice = advice_of(grpo_7b(), [refusing("assert"), fuse])
        assert advice.verdict is Verdict.WILL_NOT_START
        assert advice.combination is None
        assert advice.cheapest is None
        cost = named(advice, "fuse").price
        assert cost is not None
        assert cost.time_change is None

    def test_what_changes_the_training_is_lifted_for_the_figures_and_not_pasted(self) -> None:
        fuse = finding("fuse", grpo_7b().with_actor_engine(fused_layers=True))
        advice = advice_of(grpo_7b(), [refusing("assert", "size=4", numerics=Numerics.CHANGED), fuse])
        assert advice.refusals[0].yours
        assert advice.combination is not None
        assert "size=4" not in advice.combination.overrides
        assert advice.combination.rules == ("fuse",)

    def test_where_the_cause_is_set_aside_the_rest_is_advised(self) -> None:
        unknown = replace(refusing("unknown"), set_aside=True)
        fuse = finding("fuse", grpo_7b().with_actor_engine(fused_layers=True))
        advice = advice_of(grpo_7b(), [unknown, fuse])
        assert advice.verdict is Verdict.WILL_NOT_START
        assert advice.combination is not None
        assert advice.combination.rules == ("fuse",)


class TestNumerics:
    @pytest.mark.parametrize("averages", [True, False])
    def test_another_cut_weights_tokens_where_micro_batches_average(self, averages: bool) -> None:
        workload = grpo_7b().with_actor(update=static(1))
        workload = averaging(workload) if averages else workload
        larger = finding("larger", workload.with_actor(update=static(4)))
        advice = advice_of(workload, [larger])
        item = named(advice, "larger")
        assert item.yours is averages
        assert item.numerics is (Numerics.REWEIGHTED if averages else Numerics.EXACT)
        assert (advice.combination is None) is averages
        assert advice_of(workload, [larger], allow=[Numerics.REWEIGHTED]).combination is not None

    def test_passes_without_gradients_may_be_cut_otherwise(self) -> None:
        workload = averaging(grpo_7b())
        assert workload.actor.log_prob is not None
        log_prob = replace(workload.actor.log_prob, batching=dynamic(4096).batching)
        slow = workload.with_actor(log_prob=log_prob)
        assert not named(advice_of(slow, [finding("more", workload)]), "more").yours

    def test_what_would_fit_if_tokens_may_weigh_otherwise_is_told(self) -> None:
        workload = averaging(grpo_7b().with_actor(update=static(64)))
        smaller = finding(
            "smaller", workload.with_actor(update=static(1)), goal=Goal.MEMORY, phase=Phase.UPDATE_ACTOR
        )
        advice = advice_of(workload, [smaller])
        assert advice.memory_verdict is not Verdict.FITS
        assert advice.combination is None
        assert advice.if_reweighted is not None
        assert advice.if_reweighted.workload.actor.update.batching.micro_batch_sequences < 64


class TestFixes:
    @pytest.mark.parametrize(("fraction", "yours"), [(0.95, True), (0.6, False)])
    def test_one_that_makes_the_job_worse_is_a_question(self, fraction: float, yours: bool) -> None:
        workload = grpo_7b()
        fixed = workload.with_rollout(memory_fraction=fraction)
        fix = finding("fix", None, severity=Severity.ERROR, goal=Goal.CORRECTNESS)
        fix = replace(fix, overrides=(f"rollout.memory_fraction={fraction}",))
        advice = advice_of(workload, [fix], known=[fixed])
        assert named(advice, "fix").yours is yours
        assert named(advice, "fix").workload == fixed
        assert (advice.combination is None) is yours


class TestSeconds:
    def test_of_a_job_that_does_not_fit_are_those_of_the_cheapest_form_that_does(self) -> None:
        large = grpo_7b().with_rollout(memory_fraction=0.95)
        smaller = large.with_rollout(memory_fraction=0.6)
        given = [
            finding("smaller", smaller, goal=Goal.MEMORY, phase=Phase.ROLLOUT),
            finding("fuse", large.with_actor_engine(fused_layers=True)),
        ]
        advice = advice_of(large, given)
        assert advice.verdict is Verdict.WILL_NOT_START
        assert advice.cheapest is not None
        assert advice.cheapest.rules == ("smaller",)
        assert advice.cheapest.seconds == Case.of(smaller, headroom=HEADROOM).time.seconds
        fits, alone = named(advice, "smaller").price, named(advice, "fuse").price
        assert fits is not None and alone is not None
        assert (fits.seconds_before, fits.time_change) == (advice.cheapest.seconds, None)  # it is that form
        assert alone.time_change is None  # the job does not run with it alone


def test_ranks_that_share_sequences_otherwise_weigh_tokens_otherwise() -> None:
    """As many tokens for each rank, and fewer ranks: each average is of another part of the batch."""
    workload = averaging(grpo_7b())
    engine = workload.actor.engine
    shared = workload.with_actor_engine(parallel=replace(engine.parallel, ulysses=2))
    assert shared.actor.engine.parallel.data == engine.parallel.data // 2
    exact = finding("share", shared)
    assert numerics(exact, workload, shared) is Numerics.REWEIGHTED
    assert numerics(exact, workload, workload) is Numerics.EXACT
    assert numerics(exact, grpo_7b(), grpo_7b().with_actor_engine(parallel=shared.actor.engine.parallel)) is (
        Numerics.EXACT
    )
