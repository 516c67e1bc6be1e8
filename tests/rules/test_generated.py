"""Laws that hold for every workload, tried on many."""

from collections import Counter
from functools import cache
from types import ModuleType

import pytest
from msgspec.structs import replace

from tests.rules.generate import workloads
from tuner import memory, rules
from tuner.advise import Advice, Verdict, advise
from tuner.findings import Finding, Goal
from tuner.rules.case import Case
from tuner.units import MIB
from tuner.workload import Workload

HEADROOM = 0.1
MODULES: dict[str, ModuleType] = {module.RULE.name: module for module in rules.modules()}
CHUNKS = range(10)  # of a hundred workloads each


@cache
def cases(chunk: int) -> list[tuple[Case, list[Finding]]]:
    found = list(workloads(100, seed=chunk))
    found += [short_by_little(workload) for workload in found[:20]]
    return [(case, rules.run(case)) for case in (Case.of(each, headroom=HEADROOM) for each in found)]


def short_by_little(workload: Workload) -> Workload:
    """On a card of a size with which some MiB are missing: cures that bring little are tried as well."""
    for _ in range(20):  # an engine's share of the card changes with it
        peak = memory.estimate(workload).worst.peak_bytes
        card = replace(workload.cluster.gpu, memory_bytes=int((peak - 64 * MIB) / (1 - HEADROOM)))
        workload = replace(workload, cluster=replace(workload.cluster, gpu=card))
    return workload


def advice(case: Case, findings: list[Finding]) -> Advice:
    return advise(case.workload, findings=findings, write_overrides=_any, headroom=HEADROOM)


def _any(_proposal: Workload) -> tuple[str, ...]:
    return ("changed",)


def test_generated_workloads_reach_every_rule_and_every_verdict() -> None:
    spoken = Counter(finding.rule.name for chunk in CHUNKS for _, found in cases(chunk) for finding in found)
    assert set(spoken) == set(MODULES)
    fits = Counter(case.estimate.fits(HEADROOM) for chunk in CHUNKS for case, _ in cases(chunk))
    assert min(fits.values()) > 200


@pytest.mark.parametrize("chunk", CHUNKS)
def test_no_proposal_makes_its_own_goal_worse(chunk: int) -> None:
    for case, found in cases(chunk):
        for finding in found:
            if finding.proposal is None:
                continue
            proposed = case.other(finding.proposal)
            if finding.rule.goal is Goal.TIME:
                assert proposed.time.seconds < case.time.seconds, finding.message
                assert case.affords(finding.proposal), finding.message
            if finding.rule.goal is Goal.MEMORY:
                assert finding.phase is not None
                assert proposed.peak_bytes(finding.phase) <= case.peak_bytes(finding.phase), finding.message


@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_rule_is_silent_on_its_own_proposal(chunk: int) -> None:
    for case, found in cases(chunk):
        for finding in found:
            if finding.proposal is not None:
                again = MODULES[finding.rule.name].check(case.other(finding.proposal))
                assert again is None, f"{finding.message}, then {again and again.message}"


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_combination_breaks_nothing(chunk: int) -> None:
    for case, found in cases(chunk)[:20]:
        combination = advice(case, found).combination
        if combination is None:
            continue
        after = combination.estimate
        for headroom in (0.0, HEADROOM):
            assert after.fits(headroom) or not case.estimate.fits(headroom)
        worst = max(case.limit_bytes, case.estimate.worst.peak_bytes)
        assert max(case.limit_bytes, after.worst.peak_bytes) <= worst
        if case.estimate.fits(HEADROOM):
            assert combination.time.seconds <= case.time.seconds


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_combination_leaves_nothing_to_combine(chunk: int) -> None:
    for case, found in cases(chunk)[:5]:
        first = advice(case, found)
        if first.combination is None:
            continue
        settled = case.other(first.combination.workload)
        assert advice(settled, rules.run(settled)).combination is None


def test_a_combination_makes_most_of_what_can_fit_fit() -> None:
    helped: Counter[bool] = Counter()
    for case, found in cases(0):
        result = advice(case, found)
        if result.verdict is Verdict.DOES_NOT_FIT and result.combination is not None:
            helped[result.combination.estimate.fits()] += 1
    assert helped[True] > helped[False]
