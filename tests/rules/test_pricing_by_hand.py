"""What makes one job worse than another, and which job starts: each condition on its own."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.rules.test_advise import finding
from tests.trainers.launches import PPO, workload_of
from tests.workloads import grpo_7b
from tuner.advise.pricing import is_worse, rank, shortage
from tuner.advise.reading import Reading, ReleaseRange
from tuner.advise.refusals import started
from tuner.advise.verdicts import Condition, Verdict, judgement
from tuner.findings import Finding, Goal, Severity, Written
from tuner.rules.case import Case
from tuner.workload import Workload

SMALL = grpo_7b().with_rollout(memory_fraction=0.02)  # no engine finds room in that


class Job:
    """A case of which the figures are given."""

    def __init__(
        self,
        *missing: int,
        problems: int = 0,
        workload: Workload | None = None,
        slower: bool = False,
        affords: bool = True,
    ) -> None:
        self.phases = range(len(missing))
        self.missing = missing
        self.problems = ("problem",) * problems
        self.workload = workload or grpo_7b()
        self._slower, self._affords = slower, affords

    def missing_bytes(self, phase: int) -> int:
        return self.missing[phase]

    def slower(self, _workload: Workload) -> bool:
        return self._slower

    def affords(self, _workload: Workload) -> bool:
        return self._affords


def case(*missing: int, **given: Any) -> Case:
    return cast(Case, Job(*missing, **given))


def test_what_is_missing() -> None:
    assert shortage(case(0, 5, 3)) == (5, 0, False, 8)
    assert shortage(case(0, 0, problems=2)) == (0, 2, False, 0)
    assert shortage(case(0, 0, workload=SMALL)) == (0, 0, True, 0)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (case(5), case(6), True),
        (case(6), case(5), False),
        (case(5, 1), case(5, 2), True),
        (case(5, 2), case(5, 1), False),
        (case(0), case(0, problems=1), True),
        (case(0, problems=1), case(0), False),
        (case(0, problems=1), case(0, problems=2), True),
        (case(0), case(0, workload=SMALL), True),
        (case(0, workload=SMALL), case(0), False),
        (case(0), case(0), False),
        (case(0, slower=True), case(0), True),
        (case(0, affords=False), case(0), True),
        (case(1, slower=True, affords=False), case(0), False),
    ],
)
def test_a_job_with_more_missing_is_worse_and_else_a_slower_one(
    before: Case, after: Case, expected: bool
) -> None:
    assert is_worse(before, after) is expected


class HandMadeEstimate(SimpleNamespace):
    """A card of 100 bytes and one phase, by the ends of its interval."""

    def fits(self) -> bool:
        return not self.problems and self.peak <= 100

    def fits_for_certain(self) -> bool:
        return not self.problems and not self.doubts and self.high_bytes <= 100


def hand_made(
    low: int, peak: int, high: int, *, problems: int = 0, host: bool = False, doubts: int = 0
) -> HandMadeEstimate:
    return HandMadeEstimate(
        peak=peak,
        high_bytes=high,
        capacity_bytes=100,
        phases=(SimpleNamespace(interval=(low, high)),),
        problems=("it does not start",) * problems + ("a node has too little",) * host,
        doubts=("it may not start",) * doubts,
        host_is_short=host,
    )


MAY, SHORT = Verdict.MAY_NOT_FIT, Condition.MEAN_LENGTH


@pytest.mark.parametrize(
    ("estimate", "mean", "known", "expected"),
    [
        (hand_made(80, 90, 100), None, None, (Verdict.FITS, None)),
        (hand_made(80, 90, 101), None, None, (MAY, Condition.NOTHING_ELSE)),
        (hand_made(80, 90, 100, doubts=1), None, None, (MAY, Condition.DOUBT)),
        (hand_made(80, 90, 101, doubts=1), None, None, (MAY, Condition.NOTHING_ELSE)),
        (hand_made(100, 101, 102), None, None, (MAY, Condition.LOW_END)),
        (hand_made(101, 102, 103), None, None, (Verdict.DOES_NOT_FIT, None)),
        (hand_made(80, 90, 100, host=True), None, None, (Verdict.DOES_NOT_FIT, None)),
        (hand_made(80, 90, 100, problems=1), None, None, (Verdict.WILL_NOT_START, None)),
        (hand_made(101, 102, 103, problems=1, host=True), None, None, (Verdict.WILL_NOT_START, None)),
        (hand_made(101, 102, 103), 100, None, (MAY, SHORT)),
        (hand_made(101, 102, 103), 100, 100, (MAY, SHORT)),
        (hand_made(101, 102, 103), 100, 101, (Verdict.DOES_NOT_FIT, None)),
        (hand_made(99, 102, 103), 100, 101, (MAY, Condition.LOW_END)),
        (hand_made(101, 102, 103), None, 1, (Verdict.DOES_NOT_FIT, None)),
    ],
)
def test_the_verdict(
    estimate: HandMadeEstimate,
    mean: int | None,
    known: int | None,
    expected: tuple[Verdict, Condition | None],
) -> None:
    said = judgement(cast(Case, _job(estimate, known=known)), mean)
    assert (said.verdict, said.condition) == expected


@pytest.mark.parametrize(
    ("estimate", "mean", "against", "at_high_end", "expected"),
    [
        (hand_made(80, 90, 100), None, False, True, (Verdict.FITS, None)),
        (hand_made(80, 90, 100), None, False, False, (MAY, Condition.NOTHING_ELSE)),
        (hand_made(80, 90, 101), None, False, True, (MAY, Condition.NOTHING_ELSE)),
        (hand_made(80, 90, 100), None, True, True, (MAY, Condition.RELEASE)),
        (hand_made(101, 102, 103), 100, True, True, (MAY, SHORT)),
    ],
)
def test_the_verdict_where_the_release_is_not_bundled(
    estimate: HandMadeEstimate,
    mean: int | None,
    against: bool,
    at_high_end: bool,
    expected: tuple[Verdict, Condition | None],
) -> None:
    other = SimpleNamespace(estimate=hand_made(80, 90, 100 if at_high_end else 101))
    among = SimpleNamespace(
        against=other if against else None, considered=(other,), fits_at_high_end=lambda: at_high_end
    )
    said = judgement(cast(Case, _job(estimate)), mean, cast(ReleaseRange, among))
    assert (said.verdict, said.condition) == expected


def test_of_a_plan_that_may_take_less_nothing_can_be_said() -> None:
    job = _job(hand_made(101, 102, 103), plan_lowers=True)
    said = judgement(cast(Case, job), 100)
    assert (said.verdict, said.condition) == (Verdict.CANNOT_SAY, Condition.OWN_PLAN)


def _job(
    estimate: HandMadeEstimate, *, known: int | None = None, plan_lowers: bool = False
) -> SimpleNamespace:
    return SimpleNamespace(
        estimate=estimate,
        workload=SimpleNamespace(
            unmodelled_engine="",
            passes=tuple,
            batch=SimpleNamespace(known_mean_tokens=known),
            actor=SimpleNamespace(engine=SimpleNamespace(plan_lowers=plan_lowers)),
        ),
    )


@pytest.mark.parametrize(
    ("severity", "goal", "before", "after", "short", "seconds", "expected"),
    [
        (Severity.ERROR, Goal.MEMORY, 10, 4, True, 5.0, (0,)),
        (Severity.WARNING, Goal.MEMORY, 10, 4, True, 5.0, (1, -6)),
        (Severity.WARNING, Goal.MEMORY, 10, 4, False, 5.0, (2, -0.5)),
        (Severity.ADVICE, Goal.MEMORY, 10, 10, True, 5.0, (3, -0.5)),
        (Severity.ADVICE, Goal.MEMORY, 10, 9, True, 5.0, (1, -1)),
        (Severity.WARNING, Goal.TIME, 10, 4, True, 5.0, (2, -0.5)),
        (Severity.ADVICE, Goal.TIME, 10, 4, True, 5.0, (3, -0.5)),
        (Severity.ADVICE, Goal.TIME, 10, 4, True, 20.0, (3, 0.0)),
    ],
)
def test_the_rank_of_a_finding(
    severity: Severity,
    goal: Goal,
    before: int,
    after: int,
    short: bool,
    seconds: float,
    expected: tuple[float, ...],
) -> None:
    def job(peak: int, step: float) -> Any:
        return SimpleNamespace(
            estimate=SimpleNamespace(worst=SimpleNamespace(phase="worst")),
            peak_bytes=lambda _phase: peak,
            time=SimpleNamespace(seconds=step),
            short=lambda: "worst" if short else None,
            with_workload=lambda _proposal: job(after, seconds),
        )

    found = finding("x", grpo_7b(), goal=goal, severity=severity)
    assert rank(cast(Case, job(before, 10.0)), found) == expected


def test_the_rank_of_a_finding_without_a_proposal() -> None:
    job = SimpleNamespace(short=lambda: "worst")
    found = finding("x", None, goal=Goal.MEMORY, severity=Severity.WARNING)
    assert rank(cast(Case, job), found) == (2, 0.0)


# -- the job that starts ---------------------------------------------------------------------------


def refusal(name: str, message: str, *overrides: str, set_aside: bool = False) -> Finding:
    found = finding(name, None, goal=Goal.CORRECTNESS, severity=Severity.ERROR)
    return replace(
        found,
        rule=replace(found.rule, code=f"TST-{name}", refuses=True),
        message=message,
        overrides=overrides,
        set_aside=set_aside,
    )


class TabledReading:
    """A configuration whose findings its overrides settle by a table."""

    def __init__(self, after: dict[tuple[str, ...], Sequence[Finding]], *added: str) -> None:
        self._after, self._added = after, added
        self.workload = grpo_7b()
        self.releases = None

    @property
    def findings(self) -> Sequence[Finding]:
        return self._after[self._added]

    def averages_elsewhere(self) -> bool:
        return False

    def serving_releases(
        self, overrides: tuple[str, ...], serves: Callable[[Workload, Workload], bool]
    ) -> str:
        return ""

    def adding(self, overrides: Sequence[str]) -> "TabledReading":
        return TabledReading(self._after, *self._added, *overrides)

    def write(self, proposal: Workload) -> Written:
        raise ValueError


ONE, OTHER = refusal("one", "a", "a=1"), refusal("one", "b", "b=1")
TWO = refusal("two", "a", "c=1")
MUTE = refusal("mute", "a")
ASIDE = refusal("aside", "a", "d=1", set_aside=True)


@pytest.mark.parametrize(
    ("after", "starts", "lifted"),
    [
        ({(): ()}, True, []),
        ({(): (ONE,), ("a=1",): ()}, True, [("a=1",)]),
        ({(): (ONE,), ("a=1",): (ONE,)}, False, [()]),  # it does not lift it
        ({(): (ONE,), ("a=1",): (OTHER,), ("a=1", "b=1"): ()}, True, [("a=1",), ("b=1",)]),
        ({(): (ONE,), ("a=1",): (TWO,), ("a=1", "c=1"): ()}, True, [("a=1",), ("c=1",)]),
        ({(): (MUTE,)}, False, [()]),
        ({(): (MUTE, ONE), ("a=1",): (MUTE,)}, False, [("a=1",), ()]),
        ({(): (ASIDE,)}, True, [()]),
        ({(): (ASIDE, ONE), ("a=1",): (ASIDE,)}, True, [(), ("a=1",)]),
    ],
)
def test_refusals_are_lifted_one_after_another(
    after: dict[tuple[str, ...], Sequence[Finding]], starts: bool, lifted: list[tuple[str, ...]]
) -> None:
    job = started(cast(Reading, TabledReading(after)), headroom=0.1, allow=())
    assert (job.starts, [refusal.overrides for refusal in job.refusals]) == (starts, lifted)
    assert job.overrides == tuple(override for overrides in lifted for override in overrides)


def test_a_refusal_that_comes_back_and_back_ends() -> None:
    def after(count: int) -> Sequence[Finding]:
        return (refusal("one", str(count), f"a={count}"),)

    steps = {tuple(f"a={number}" for number in range(count)): after(count) for count in range(20)}
    job = started(cast(Reading, TabledReading(steps)), headroom=0.1, allow=())
    *lifted, left = job.refusals  # what no more repair is tried of is told all the same
    assert (job.starts, len(lifted), left.stands) == (False, 12, True)
    assert not any(refusal.stands for refusal in lifted)


@pytest.mark.parametrize(
    ("given", "stands"),
    [(ONE, False), (MUTE, True), (ASIDE, False), (replace(MUTE, set_aside=True), False)],
)
def test_a_refusal_stands_where_nothing_lifts_it_and_it_is_not_set_aside(
    given: Finding, stands: bool
) -> None:
    after: dict[tuple[str, ...], Sequence[Finding]] = {(): (given,), given.overrides: ()}
    if not given.overrides:
        after = {(): (given,)}
    job = started(cast(Reading, TabledReading(after)), headroom=0.1, allow=())
    assert [refusal.stands for refusal in job.refusals] == [stands]


# -- fields that one setting decides for two roles --------------------------------------------------


def test_shared_prefixes_keep_the_actor_from_packing_and_not_the_critic() -> None:
    shared = workload_of((*PPO, "++actor_rollout_ref.actor.use_prefix_grouper=True"), "0.7.1")
    assert shared.critic is not None and shared.reference is not None
    packable = [job.engine.packable for job in (shared.actor, shared.reference, shared.critic)]
    assert packable == [False, False, True]
    plain = workload_of(PPO, "0.7.1")
    assert plain.actor.engine.packable
