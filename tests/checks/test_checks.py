"""Every check against its table, through the real path from overrides to findings."""

import inspect
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.loading import load
from tests.tables import Row, bases, check_findings, names, scene, table
from tuner.findings import Finding
from tuner.inputs.settings import Settings
from tuner.trainers.verl import checks
from tuner.trainers.verl.releases import BUNDLED

RULES = {rule.name: rule for rule, _ in checks.RULES}
MODULES = {rule.name: module for rule, module in checks.RULES}
HEADINGS = ["What it checks", "Why it matters", "When it does not apply", "Sources"]
ROWS = [(name, row) for name in sorted(RULES) if name in names() for row in table(name).rows]


def of(name: str, findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.rule.name == name]


def test_codes_and_names_are_unique() -> None:
    assert len({rule.code for rule, _ in checks.RULES}) == len(checks.RULES) == len(RULES)
    assert all(rule.code.startswith("CFG") and len(rule.code) == 6 for rule in RULES.values())


def test_every_module_of_the_package_is_a_check_of_its_name() -> None:
    assert {name.replace("-", "_") for name in RULES} == {
        module.__name__.rpartition(".")[2] for module in MODULES.values()
    }


@pytest.mark.parametrize("name", sorted(RULES))
class TestForm:
    def test_page_has_the_fixed_headings(self, name: str) -> None:
        lines = (inspect.getdoc(MODULES[name]) or "").splitlines()
        underlined = [line for line, below in pairwise(lines) if set(below) == {"-"}]
        assert underlined == HEADINGS
        assert not lines[0].endswith(".")
        for line, below in pairwise(lines):
            if line in HEADINGS:
                assert len(below) == len(line)

    def test_has_a_table(self, name: str) -> None:
        assert table(name).rule == name
        assert {row.finds for row in table(name).rows} >= {False}

    def test_base_does_not_trigger_it(self, name: str) -> None:
        assert of(name, check_findings(scene(table(name).base))) == []

    def test_bad_example_triggers_it(self, name: str) -> None:
        example = table(name)
        findings = of(name, check_findings(scene(example.bad_base, example.bad)))
        assert findings
        if name not in ("rollout-name-missing", "program-missing", "missing-key"):  # stands nowhere
            assert all(finding.location is not None for finding in findings)

    def test_following_the_overrides_silences_it(self, name: str) -> None:
        example = table(name)
        findings = of(name, check_findings(scene(example.bad_base, example.bad)))
        overrides = [override for finding in findings for override in finding.overrides]
        if overrides:
            followed = check_findings(scene(example.bad_base, [*example.bad, *overrides]))
            assert of(name, followed) == []


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{name}: {row.name}" for name, row in ROWS])
def test_row(name: str, row: Row) -> None:
    it = scene(row.base, row.set)
    found = of(name, check_findings(it))
    assert bool(found) == row.finds
    overrides = [override for finding in found for override in finding.overrides]
    for proposal in row.proposes:
        assert proposal in overrides
    for finding in found:
        assert it.version in finding.message
        assert finding.message[0] != " "
        assert not finding.message.endswith(".")


@pytest.mark.parametrize("resolved", [False, True], ids=["interpolated", "resolved"])
@pytest.mark.parametrize("version", BUNDLED)
def test_composed_configuration_is_as_silent_as_its_overrides(
    version: str, resolved: bool, tmp_path: Path
) -> None:
    """A composed file sets every key; what nobody changed is no finding more."""
    it = scene(bases()[f"grpo-{version}"])
    tree = _resolved(it.settings, it.settings.tree) if resolved else it.settings.tree
    composed = tmp_path / "config.yaml"
    composed.write_text(yaml.safe_dump(dict(tree)), encoding="utf-8")
    settings = load(composed, [], version=version).settings
    assert settings.is_set("critic.ppo_epochs")
    composed_findings = checks.run(settings, it.workload, version=version)
    assert [(finding.rule, finding.message) for finding in composed_findings] == [
        (finding.rule, finding.message) for finding in check_findings(it)
    ]


def _resolved(settings: Settings, tree: Any, above: str = "") -> Any:
    if not isinstance(tree, dict) or not tree:
        return settings.get(above)
    return {key: _resolved(settings, value, f"{above}.{key}".lstrip(".")) for key, value in tree.items()}


def test_findings_come_by_code_and_name_the_place() -> None:
    bad = ["actor_rollout_ref.rollout.mode=sync", "actor_rollout_ref.actor.grad_clip=0.5"]
    everything = check_findings(scene(bases()["grpo-0.9.1"], bad))
    findings = [finding for finding in everything if finding.rule.name in ("dead-key", "sync-rollout-mode")]
    assert [finding.rule.name for finding in findings] == ["dead-key", "sync-rollout-mode"]
    assert all(str(finding.location).startswith("command line") for finding in findings)
    assert findings[0].keys[0] == "actor_rollout_ref.actor.grad_clip"


def test_override_of_a_key_that_is_not_there_is_an_addition() -> None:
    bad = ["actor_rollout_ref.actor.fsdp_config.dtype=float16"]
    (finding,) = of("dead-key", check_findings(scene(bases()["grpo-0.9.1"], bad)))
    assert finding.overrides == ("+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=float16",)
