"""Every rule against its table, from the user's overrides to findings and back."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
from msgspec import structs

from tests.tables import HEADROOM, Row, Scene, Table, bases, rule_findings, scene, table
from tuner import rules
from tuner.findings import Finding, Goal
from tuner.rules.case import Case

MODULES = {module.RULE.name: module for module in rules.modules()}
ROWS = [(name, row) for name in MODULES for row in table(name).rows]


def case_of(it: Scene) -> Case:
    return Case.of(it.workload, headroom=HEADROOM)


def bad(name: str) -> tuple[Scene, Finding]:
    example = table(name)
    it = scene(example.bad_base, example.bad)
    finding = MODULES[name].check(case_of(it))
    assert finding is not None
    return it, finding


def overrides(it: Scene, finding: Finding) -> tuple[str, ...]:
    assert finding.proposal is not None
    return it.loaded.override_writer(it.workload)(finding.proposal).overrides


# -- what shows that a proposal serves its goal: the case before and after, and the finding ---------------


def peak_falls(before: Case, after: Case, finding: Finding) -> bool:
    assert finding.phase is not None
    return after.peak_bytes(finding.phase) < before.peak_bytes(finding.phase)


def host_memory_falls(before: Case, after: Case, finding: Finding) -> bool:
    assert finding.phase is not None
    on_card = after.peak_bytes(finding.phase) <= before.peak_bytes(finding.phase)
    return on_card and after.estimate.host_bytes < before.estimate.host_bytes


def seconds_fall(before: Case, after: Case, _finding: Finding) -> bool:
    return after.time.seconds < before.time.seconds


def engine_starts(before: Case, after: Case, _finding: Finding) -> bool:
    return len(after.estimate.problems) < len(before.estimate.problems)


JUDGES: dict[str, Callable[[Case, Case, Finding], bool]] = {
    "peak": peak_falls,
    "host memory": host_memory_falls,
    "seconds": seconds_fall,
    "start": engine_starts,
}
USUAL = {Goal.MEMORY: "peak", Goal.TIME: "seconds"}  # a rule of correctness says in its table what judges it


def assert_serves_its_goal(it: Scene, finding: Finding, example: Table) -> None:
    if example.no_remedy is not None:
        assert finding.proposal is None and finding.rule.yours
        return
    assert (finding.proposal is None) == bool(example.remedy), "remedy: what stands for a missing proposal"
    judge = example.judged_by or USUAL.get(finding.rule.goal)
    assert judge is not None, f"judged_by: {', '.join(JUDGES)} or settings"
    if judge == "settings":
        assert example.settings
        assert overrides(it, finding) == example.settings
        return
    remedied = finding.proposal or scene(example.bad_base, [*example.bad, *example.remedy]).workload
    assert JUDGES[judge](case_of(it), Case.of(remedied, headroom=HEADROOM), finding)


@pytest.mark.parametrize("name", MODULES)
class TestBadExample:
    def test_is_of_its_rule(self, name: str) -> None:
        assert table(name).rule == name

    def test_triggers_its_rule(self, name: str) -> None:
        example = table(name)
        it = scene(example.bad_base, example.bad)
        assert [found.rule.name for found in rule_findings(it)].count(name) == 1

    def test_its_base_alone_does_not(self, name: str) -> None:
        named = bases()[table(name).base.name]  # on its own GPUs
        assert MODULES[name].check(case_of(scene(named))) is None

    def test_says_what_led_to_it(self, name: str) -> None:
        _, finding = bad(name)
        assert finding.rule is MODULES[name].RULE
        assert finding.message[0] != " "
        assert not finding.message.endswith(".")
        assert len(finding.message) < 250

    def test_serves_its_goal(self, name: str) -> None:
        it, finding = bad(name)
        assert_serves_its_goal(it, finding, table(name))

    def test_a_proposal_that_changes_nothing_would_not(self, name: str) -> None:
        it, finding = bad(name)
        idle = structs.replace(finding, proposal=it.workload)
        with pytest.raises(AssertionError):
            assert_serves_its_goal(it, idle, replace(table(name), remedy=()))

    def test_its_overrides_silence_it(self, name: str) -> None:
        it, finding = bad(name)
        example = table(name)
        written = example.remedy if finding.proposal is None else overrides(it, finding)
        base = example.bad_base if example.no_remedy is None else example.base  # nothing said of the run
        followed = scene(base, [*example.bad, *written])
        assert MODULES[name].check(case_of(followed)) is None


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{name}: {row.name}" for name, row in ROWS])
def test_row(name: str, row: Row) -> None:
    it = scene(row.base, row.set)
    module: ModuleType = MODULES[name]
    finding = module.check(case_of(it))
    assert (finding is not None) == row.finds
    if finding is not None and finding.proposal is not None:
        written = overrides(it, finding)
        assert set(row.proposes) <= set(written)
        assert module.check(Case.of(finding.proposal, headroom=HEADROOM)) is None
