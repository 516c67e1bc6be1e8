"""Every rule against its table, from the user's overrides to findings and back."""

from types import ModuleType

import pytest

from tests.tables import HEADROOM, Row, Scene, bases, check_findings, rule_findings, scene, table
from tuner import rules
from tuner.findings import Finding, Goal
from tuner.rules.case import Case
from tuner.trainers import verl

MODULES = {module.RULE.name: module for module in rules.modules()}
SILENT = [name for name in bases() if name.startswith("tuned")]
ROWS = [(name, row) for name in MODULES for row in table(name).rows]


def case_of(it: Scene) -> Case:
    return Case.of(it.workload, headroom=HEADROOM)


def bad(name: str) -> tuple[Scene, Finding]:
    example = table(name)
    it = scene(example.base, example.bad)
    finding = MODULES[name].check(case_of(it))
    assert finding is not None
    return it, finding


def overrides(it: Scene, finding: Finding) -> tuple[str, ...]:
    assert finding.proposal is not None
    return verl.override_writer(it.workload, it.settings, version=it.version)(finding.proposal)


@pytest.mark.parametrize("name", SILENT)
def test_a_tuned_base_is_left_alone(name: str) -> None:
    it = scene(bases()[name])
    assert [found.message for found in rule_findings(it) + check_findings(it)] == []


@pytest.mark.parametrize("name", MODULES)
class TestBadExample:
    def test_triggers_exactly_its_rule(self, name: str) -> None:
        example = table(name)
        it = scene(example.base, example.bad)
        assert [found.rule.name for found in rule_findings(it) + check_findings(it)] == [name]

    def test_says_what_led_to_it(self, name: str) -> None:
        _, finding = bad(name)
        assert finding.rule is MODULES[name].RULE
        assert finding.message[0] != " "
        assert not finding.message.endswith(".")
        assert len(finding.message) < 250

    def test_serves_its_goal(self, name: str) -> None:
        it, finding = bad(name)
        if finding.proposal is None:
            return
        before, after = case_of(it), Case.of(finding.proposal, headroom=HEADROOM)
        if finding.rule.goal is Goal.TIME:
            assert after.time.seconds < before.time.seconds
        if finding.rule.goal is Goal.MEMORY:
            assert finding.phase is not None
            assert after.peak_bytes(finding.phase) <= before.peak_bytes(finding.phase)

    def test_its_overrides_silence_it(self, name: str) -> None:
        it, finding = bad(name)
        if finding.proposal is None:
            return
        example = table(name)
        followed = scene(example.base, [*example.bad, *overrides(it, finding)])
        assert name not in [found.rule.name for found in rule_findings(followed)]


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
