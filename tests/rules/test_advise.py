"""Pricing, ranking, conflicts and the combination."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.readings import HEADROOM, advice_of, paths
from tests.tables import SceneReading, bases, rule_findings, scene
from tests.workloads import ALL, dynamic, grpo_7b, ppo_7b, static
from tuner import memory, rules, timing
from tuner.advise import Advice, Condition, Recommendation, Verdict, advise
from tuner.advise.differences import changes, merged, without_idle_sizes
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.workload import Checkpointing, Phase, Workload

pytestmark = pytest.mark.sampled(6)

Change = Callable[[Workload], Workload]


def finding(
    name: str,
    proposal: Workload | None,
    *,
    goal: Goal = Goal.TIME,
    severity: Severity = Severity.ADVICE,
    phase: Phase | None = None,
) -> Finding:
    rule = Rule(code="TST001", name=name, summary=name, severity=severity, goal=goal, numerics=Numerics.EXACT)
    return Finding(
        rule=rule, message=name, severity=severity, evidence=Evidence.EXACT, phase=phase, proposal=proposal
    )


def names(advice: Advice) -> list[str]:
    return [found.finding.rule.name for found in advice.recommendations]


def by_name(advice: Advice, name: str) -> Recommendation:
    return next(found for found in advice.recommendations if found.finding.rule.name == name)


def too_large() -> Workload:
    return grpo_7b().with_actor(update=dynamic(262144))


class TestVerdict:
    def test_fits(self) -> None:
        assert advice_of(grpo_7b()).verdict is Verdict.FITS

    def test_may_not_fit_where_the_high_end_does_not(self) -> None:
        capacity = grpo_7b().cluster.gpu.memory_bytes
        for hundredths in range(50, 95):
            workload = grpo_7b().with_rollout(memory_fraction=hundredths / 100)
            estimate = memory.estimate(workload)
            if estimate.worst.peak_bytes <= capacity < estimate.high_bytes:
                advice = advice_of(workload)
                assert advice.verdict is Verdict.MAY_NOT_FIT
                assert advice.memory_condition is Condition.NOTHING_ELSE
                return
        pytest.fail("no fraction puts the card between the peak and the high end")

    def test_too_little_host_memory_does_not_fit(self) -> None:
        workload = grpo_7b().with_actor_engine(param_offload=True, optimizer_offload=True)
        assert advice_of(workload).verdict is Verdict.FITS
        needed = memory.estimate(workload).host_bytes
        short = replace(workload, cluster=replace(workload.cluster, host_memory_bytes=needed - 1))
        assert advice_of(short).verdict is Verdict.DOES_NOT_FIT

    def test_does_not_fit(self) -> None:
        known = replace(too_large().batch.lengths, mean_prompt=512, mean_response=1536)
        assert advice_of(too_large().with_batch(lengths=known)).verdict is Verdict.DOES_NOT_FIT

    def test_an_engine_that_asks_for_more_than_there_is_does_not_start(self) -> None:
        assert advice_of(grpo_7b().with_rollout(memory_fraction=0.95)).verdict is Verdict.WILL_NOT_START


class TestPrice:
    def test_is_the_models_own(self) -> None:
        workload = grpo_7b()
        proposal = workload.with_actor_engine(fused_layers=True)
        (found,) = advice_of(workload, [finding("fuse", proposal, phase=Phase.UPDATE_ACTOR)]).recommendations
        before, after = memory.estimate(workload), memory.estimate(proposal)
        assert found.price is not None
        assert found.price.before_bytes == before.phase(Phase.UPDATE_ACTOR).peak_bytes  # type: ignore[union-attr]
        assert found.price.after_bytes == after.phase(Phase.UPDATE_ACTOR).peak_bytes  # type: ignore[union-attr]
        assert found.price.worst_before_bytes == before.worst.peak_bytes
        concurrent = memory.rollout_memory(workload).concurrent_sequences
        step = timing.step_time(workload, concurrent_sequences=concurrent)
        assert found.price.seconds_before == step.seconds
        assert found.price.seconds_after < step.seconds

    def test_a_finding_without_proposal_keeps_its_own_overrides(self) -> None:
        check = replace(finding("check", None), overrides=("a=1",))
        (found,) = advice_of(grpo_7b(), [check]).recommendations
        assert found.overrides == ("a=1",)
        assert found.price is None

    def test_a_finding_without_phase_is_priced_in_the_worst_one(self) -> None:
        workload = grpo_7b()
        (found,) = advice_of(
            workload, [finding("fuse", workload.with_actor_engine(fused_layers=True))]
        ).recommendations
        assert found.price is not None
        assert found.price.phase is memory.estimate(workload).worst.phase


class TestDropping:
    @pytest.mark.parametrize(
        ("goal", "change"),
        [
            (Goal.TIME, lambda workload: workload.with_actor(update=dynamic(4096))),
            (Goal.TIME, lambda workload: workload.with_rollout(memory_fraction=0.95)),
            (Goal.MEMORY, lambda workload: workload.with_actor(update=dynamic(32768))),
            (Goal.MEMORY, lambda workload: workload.with_rollout(log_stats=True)),
        ],
        ids=["slower", "faster but does not fit", "more memory", "no difference"],
    )
    def test_what_does_not_pay(self, goal: Goal, change: Change) -> None:
        workload = grpo_7b()
        given = finding("costs", change(workload), goal=goal, phase=Phase.UPDATE_ACTOR)
        assert advice_of(workload, [given]).recommendations == ()

    def test_what_cannot_be_written(self) -> None:
        def mute(_proposal: Workload) -> tuple[str, ...]:
            raise ValueError("no key")

        workload = grpo_7b()
        given = finding("fuse", workload.with_actor_engine(fused_layers=True))
        result = advice_of(workload, [given], write=mute)
        assert result.recommendations == ()
        assert result.combination is None

    def test_memory_advice_may_raise_a_phase_that_has_room(self) -> None:
        workload = grpo_7b().with_rollout(frees_memory=False, memory_fraction=0.7)
        slept = workload.with_rollout(frees_memory=True)
        given = finding("sleep", slept, goal=Goal.MEMORY, phase=Phase.UPDATE_ACTOR)
        assert names(advice_of(workload, [given])) == ["sleep"]


class TestRanking:
    def test_errors_then_memory_then_time(self) -> None:
        workload = too_large()
        given = [
            finding("fuse", workload.with_actor_engine(fused_layers=True)),
            finding(
                "small",
                workload.with_actor(update=dynamic(131072)),
                goal=Goal.MEMORY,
                phase=Phase.UPDATE_ACTOR,
            ),
            finding(
                "smaller",
                workload.with_actor(update=dynamic(8192)),
                goal=Goal.MEMORY,
                phase=Phase.UPDATE_ACTOR,
            ),
            finding("wrong", None, severity=Severity.ERROR, goal=Goal.CORRECTNESS),
            finding("old", None, severity=Severity.WARNING, goal=Goal.CORRECTNESS),
            finding("log", workload.with_rollout(log_stats=True), goal=Goal.CORRECTNESS),
        ]
        ranked = names(advice_of(workload, given))
        assert ranked == ["wrong", "smaller", "small", "old", "fuse", "log"]

    def test_by_gain_of_time(self) -> None:
        ranked = advice_of(grpo_7b()).recommendations
        gains = [found.price.seconds_before - found.price.seconds_after for found in ranked if found.price]
        assert gains == sorted(gains, reverse=True)

    def test_equals_keep_their_order(self) -> None:
        given = [finding(name, None) for name in "cab"]
        assert names(advice_of(grpo_7b(), given)) == ["c", "a", "b"]


class TestConflicts:
    def test_one_field_set_differently(self) -> None:
        # No more at once than graphs replay: a slow host would lose by more what a larger cache gains.
        workload = grpo_7b().with_rollout(memory_fraction=0.25, max_sequences=512)
        given = [
            finding("more", workload.with_rollout(memory_fraction=0.6)),
            finding("most", workload.with_rollout(memory_fraction=0.62)),
            finding("fuse", workload.with_actor_engine(fused_layers=True)),
        ]
        result = advice_of(workload, given)
        assert by_name(result, "more").conflicts == ("most",)
        assert by_name(result, "most").conflicts == ("more",)
        assert by_name(result, "fuse").conflicts == ()

    def test_same_value_is_no_conflict(self) -> None:
        workload = grpo_7b()
        given = [finding(name, workload.with_rollout(memory_fraction=0.7)) for name in ("one", "two")]
        assert all(found.conflicts == () for found in advice_of(workload, given).recommendations)


class TestCombination:
    @pytest.mark.parametrize("workload", [make() for make in ALL], ids=[make.__name__ for make in ALL])
    def test_is_faster_and_fits(self, workload: Workload) -> None:
        result = advice_of(workload)
        assert result.combination is not None
        fits = result.verdict is Verdict.FITS  # else its seconds are of a job that does not run
        assert not fits or result.combination.time.seconds < result.time.seconds
        assert result.combination.estimate.fits(HEADROOM)
        assert set(result.combination.overrides) == set(paths(workload, result.combination.workload))

    def test_repairs_what_does_not_fit_with_little(self) -> None:
        result = advice_of(too_large())
        assert result.verdict is not Verdict.FITS
        combination = result.combination
        assert combination is not None
        assert combination.estimate.fits(HEADROOM)
        assert (
            "token-budget-too-large" in combination.rules or "recomputation-not-needed" in combination.rules
        )
        engine = combination.workload.actor.engine
        assert not engine.activation_offload
        assert engine.parallel.ulysses == 1

    def test_takes_back_what_another_change_made_needless(self) -> None:
        """Critic and actor on one card: rungs of the first round may be undone by those of the next."""
        workload = ppo_7b().with_rollout(memory_fraction=0.8)
        result = advice_of(workload)
        assert result.combination is not None
        settled = result.combination.workload
        again = advice_of(settled)
        assert again.combination is None

    def test_names_only_rules_whose_changes_are_left(self) -> None:
        for make in ALL:
            result = advice_of(make())
            assert result.combination is not None
            assert len(set(result.combination.rules)) == len(result.combination.rules)
            assert set(result.combination.rules) <= {module.RULE.name for module in rules.modules()}

    def test_leaves_changed_numerics_to_the_user(self) -> None:
        workload = grpo_7b().with_batch(prompts=160, fills_mini_batches=True)
        result = advice_of(workload)
        assert "padding-sequences" in names(result)
        assert result.combination is not None
        assert "padding-sequences" not in result.combination.rules
        assert result.combination.workload.batch == workload.batch

    def test_checks_every_step_when_the_whole_cannot_be_written(self) -> None:
        """A trainer that cannot set both switches at once still gets one of them."""

        def either(proposal: Workload) -> tuple[str, ...]:
            written = paths(workload, proposal)
            if len(written) > 1:
                raise ValueError("one at a time")
            return written

        workload = grpo_7b()
        given = [
            finding("fuse", workload.with_actor_engine(fused_layers=True)),
            finding("more", workload.with_rollout(memory_fraction=0.7)),
        ]
        result = advice_of(workload, given, write=either)
        assert result.combination is not None
        assert len(result.combination.overrides) == 1

    def test_brings_what_mends_silent_errors(self) -> None:
        workload = grpo_7b()
        given = [
            finding("fuse", workload.with_actor_engine(fused_layers=True)),
            replace(finding("assert", None, severity=Severity.ERROR), overrides=("+bucket=4096",)),
            replace(finding("old", None, severity=Severity.WARNING), overrides=("new=1",)),
            finding("log", workload.with_rollout(log_stats=True), goal=Goal.CORRECTNESS),
        ]
        combination = advice_of(workload, given).combination
        assert combination is not None
        assert combination.rules == ("assert", "fuse")
        assert combination.overrides == ("+bucket=4096", "actor.engine.fused_layers=True")

    def test_a_repair_alone_is_a_combination(self) -> None:
        tuned = scene(bases()["tuned"]).workload
        repair = replace(finding("assert", None, severity=Severity.ERROR), overrides=("bucket=4096",))
        combination = advice_of(tuned, [repair]).combination
        assert combination is not None
        assert combination.overrides == ("bucket=4096",)
        assert combination.workload == tuned

    def test_two_right_proposals_do_not_make_a_wrong_one(self) -> None:
        """A micro-batch of 256 divides what each of four ranks holds, not what each of eight does."""
        base = grpo_7b().with_batch(
            prompts=128, mini_batch_prompts=128, max_prompt_tokens=128, max_response_tokens=128
        )
        engine = base.actor.engine
        shared = replace(engine, parallel=replace(engine.parallel, ulysses=2))
        workload = base.with_actor(engine=shared, update=static(2))
        given = [
            finding("larger", workload.with_actor(update=static(256))),
            finding("unshared", workload.with_actor(engine=engine), goal=Goal.CORRECTNESS),
        ]
        combination = advice_of(workload, given).combination
        assert combination is not None
        update = combination.workload.actor.update.batching
        local = 128 * 8 // combination.workload.actor.engine.parallel.data
        assert local % update.micro_batch_sequences == 0

    def test_nothing_to_say_is_no_combination(self) -> None:
        it = scene(bases()["tuned"])
        assert advice_of(it.workload).combination is None


class TestDifferences:
    def test_changes_are_leaves(self) -> None:
        workload = grpo_7b()
        other = workload.with_actor_engine(checkpointing=Checkpointing.NONE).with_rollout(memory_fraction=0.6)
        assert changes(workload, other) == {
            ("actor", "engine", "checkpointing"): Checkpointing.NONE,
            ("rollout", "memory_fraction"): 0.6,
        }

    def test_merging_the_changes_gives_the_other(self) -> None:
        workload, other = grpo_7b(), too_large().with_batch(prompts=64)
        assert merged(workload, changes(workload, other)) == other

    def test_sizes_that_the_batching_does_not_use_are_put_back(self) -> None:
        before = grpo_7b().with_actor(update=static(2))
        batching = replace(
            before.actor.update.batching, dynamic=True, token_budget=9999, micro_batch_sequences=8
        )
        after = before.with_actor(update=replace(before.actor.update, batching=batching))
        settled = without_idle_sizes(before, changes(before, after)).actor.update.batching
        assert (settled.dynamic, settled.token_budget, settled.micro_batch_sequences) == (True, 9999, 2)
        changed_back = changes(after, before.with_actor(update=static(4)))
        back = without_idle_sizes(after, changed_back).actor.update.batching
        assert (back.dynamic, back.token_budget, back.micro_batch_sequences) == (False, 9999, 4)

    def test_merging_changes_nothing_else(self) -> None:
        workload = grpo_7b()
        first = workload.with_rollout(memory_fraction=0.6)
        second = workload.with_rollout(max_sequences=64)
        both = merged(first, changes(workload, second))
        assert both.rollout.memory_fraction == 0.6
        assert both.rollout.max_sequences == 64


def test_overrides_of_the_combination_settle_a_real_configuration() -> None:
    """Through the trainer: what is pasted is read back as the combined workload."""
    base = bases()["grpo-0.9.1"]
    result = advise(SceneReading(base), headroom=HEADROOM)
    assert result.combination is not None
    followed = scene(base, result.combination.overrides)
    assert memory.estimate(followed.workload).worst.peak_bytes == result.combination.estimate.worst.peak_bytes
    assert not {found.rule.name for found in rule_findings(followed)} & set(result.combination.rules)
    assert advice_of(followed.workload).combination is None
