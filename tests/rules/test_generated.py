"""Laws that hold for every workload, tried on many."""

from collections import Counter
from functools import lru_cache
from types import ModuleType

import pytest
from msgspec.structs import replace

from tests.readings import advice_of
from tests.rules.generate import workloads
from tuner import memory, rules
from tuner.advise import Verdict
from tuner.advise.acceptance import MOST_LINES
from tuner.findings import Finding, Goal
from tuner.rules.case import Case
from tuner.units import MIB
from tuner.workload import Workload

HEADROOM = 0.1
MODULES: dict[str, ModuleType] = {module.RULE.name: module for module in rules.modules()}
CHUNKS, SIZE = 20, 50  # parts of all workloads, and how many each has

Judged = list[tuple[Case, list[Finding]]]

#: Of the workloads of a part, which three laws ask for.
advice = lru_cache(maxsize=2 * SIZE)(advice_of)


@pytest.fixture(scope="module", params=range(CHUNKS))
def judged(request: pytest.FixtureRequest) -> Judged:
    """A part of the workloads with what the rules say of them; the tests of a part follow one another."""
    chosen = list(workloads(SIZE, seed=request.param))
    chosen += [short_by_little(workload) for workload in chosen[: SIZE // 5]]
    return [(case, rules.run(case)) for case in map(case_of, chosen)]


def case_of(workload: Workload) -> Case:
    return Case.of(workload, headroom=HEADROOM)


def short_by_little(workload: Workload) -> Workload:
    """On a card of a size with which some MiB are missing: rungs that bring little are tried as well."""
    for _ in range(20):  # an engine's share of the card changes with it
        peak = memory.estimate(workload).worst.peak_bytes
        card = replace(workload.cluster.gpu, memory_bytes=int((peak - 64 * MIB) / (1 - HEADROOM)))
        if card == workload.cluster.gpu:
            break
        workload = replace(workload, cluster=replace(workload.cluster, gpu=card))
    return workload


def mostly_decoding(workload: Workload) -> Workload:
    """With responses so long that the KV cache is most of what is read, and holds few of them."""
    return workload.with_batch(max_response_tokens=16 * workload.batch.max_response_tokens)


def weightless(workload: Workload) -> Workload:
    """With a KL term of weight 0, where there is a reference."""
    reference = workload.reference
    return workload if reference is None else replace(workload, reference=replace(reference, weighs=False))


@pytest.mark.sampled(6)
@pytest.mark.slow
def test_generated_workloads_reach_every_rule_and_every_verdict() -> None:
    """Each workload is shown to the rules that have not spoken yet, which soon are few."""
    silent, fits = dict(MODULES), Counter[bool]()
    for chunk in range(CHUNKS):
        for number, workload in enumerate(workloads(SIZE, seed=chunk)):
            tried: tuple[Workload, ...] = (workload,)
            if number < SIZE // 5:
                variants = (short_by_little, mostly_decoding, weightless)
                tried = (workload, *(variant(workload) for variant in variants))
            for case in map(case_of, tried):
                fits[case.estimate.fits(HEADROOM)] += 1
                for name in [name for name, module in silent.items() if module.check(case) is not None]:
                    del silent[name]
        if not silent and min(fits.values()) > sum(fits.values()) / 5:
            return
    assert not silent
    assert min(fits.values()) > sum(fits.values()) / 5


def spent(case: Case) -> float:
    """Seconds of all phases, also of those that the step does not wait for."""
    return sum(phase.seconds for phase in case.time.phases)


@pytest.mark.sampled(40)
def test_no_proposal_makes_its_own_goal_worse(judged: Judged) -> None:
    for case, findings in judged:
        for finding in findings:
            if finding.proposal is None:
                continue
            proposed = case.with_workload(finding.proposal)
            if finding.rule.goal is Goal.TIME:
                assert proposed.time.seconds <= case.time.seconds, finding.message
                assert spent(proposed) < spent(case), finding.message
                assert case.affords(finding.proposal), finding.message
            if finding.rule.goal is Goal.MEMORY:
                assert finding.phase is not None
                assert proposed.peak_bytes(finding.phase) <= case.peak_bytes(finding.phase), finding.message


@pytest.mark.sampled(40)
def test_every_rule_is_silent_on_its_own_proposal(judged: Judged) -> None:
    for case, findings in judged:
        for finding in findings:
            if finding.proposal is not None:
                again = MODULES[finding.rule.name].check(case.with_workload(finding.proposal))
                assert again is None, f"{finding.message}, then {again and again.message}"


@pytest.mark.sampled(40)
def test_a_combination_breaks_nothing(judged: Judged) -> None:
    for case, _ in judged[: SIZE // 5]:
        combination = advice(case.workload).combination
        if combination is None:
            continue
        after = combination.estimate
        for headroom in (0.0, HEADROOM):
            assert after.fits(headroom) or not case.estimate.fits(headroom)
        worst = max(case.limit_bytes, case.estimate.worst.peak_bytes)
        assert max(case.limit_bytes, after.worst.peak_bytes) <= worst
        if case.estimate.fits(HEADROOM):
            assert combination.time.seconds <= case.time.seconds


def _attends_otherwise(case: Case, after: Workload) -> bool:
    """Whether rows are no longer paired: how long they ought to be is judged by the attention that runs."""
    return case.workload.actor.engine.attention is not after.actor.engine.attention


@pytest.mark.sampled(40)
def test_a_combination_leaves_nothing_to_combine(judged: Judged) -> None:
    for case, _ in judged[: SIZE // 10]:
        first = advice(case.workload)
        if first.combination is None or _attends_otherwise(case, first.combination.workload):
            continue
        settled = case.with_workload(first.combination.workload)
        left = MOST_LINES - len(first.combination.overrides)  # here a line is a field: there are more of them
        more = advice_of(settled.workload).combination
        assert more is None or len(more.contributions[0].overrides) > left


@pytest.mark.sampled(40)
def test_a_combination_makes_most_of_what_can_fit_fit(judged: Judged) -> None:
    helped: Counter[bool] = Counter()
    for case, _ in judged:
        result = advice(case.workload)
        if result.verdict is Verdict.DOES_NOT_FIT and result.cheapest is not None:
            helped[result.combination is not None] += 1
    assert helped[True] > helped[False]
