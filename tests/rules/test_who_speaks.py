"""Which rules and checks speak where, in one listing.

A table of cases judges only the rule it names. What the others say there stands in
``golden/who-speaks.txt``: for every rule and check, the bases and the bad examples on which it speaks.
``UPDATE_GOLDEN=1 pytest tests/rules/test_who_speaks.py`` writes it anew; read in the difference whether
each place is one where the rule ought to speak.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.golden import expect
from tests.tables import bases, check_findings, combined, rule_findings, scene, table
from tuner import rules
from tuner.findings import Finding
from tuner.trainers.verl import checks

FOLDER = Path(__file__).parent / "golden"
RULES = [module.RULE for module in rules.modules()]
CHECKS = [rule for rule, _ in checks.RULES]


def places() -> Iterator[tuple[str, list[Finding]]]:
    """What is said of every base, of one whose combination was followed, and of every bad example.

    Of a check's example, which need not be tuned, only what the checks say.
    """
    scenes = {f"base {name}": scene(base) for name, base in bases().items()}
    scenes["base grpo-0.9.1, combination followed"] = combined(bases()["grpo-0.9.1"])
    scenes |= {
        f"example {rule.name}": scene(table(rule.name).bad_base, table(rule.name).bad) for rule in RULES
    }
    for place, it in scenes.items():
        yield place, rule_findings(it) + check_findings(it)
    for rule in CHECKS:
        yield f"example {rule.name}", check_findings(scene(table(rule.name).bad_base, table(rule.name).bad))


@pytest.mark.sampled(3)
def test_who_speaks_where() -> None:
    known = sorted([*RULES, *CHECKS], key=lambda rule: rule.code)
    speaks: dict[str, list[str]] = {rule.name: [] for rule in known}
    for place, findings in places():
        for name in dict.fromkeys(finding.rule.name for finding in findings):
            speaks[name].append(place)
    lines = [
        line
        for rule in known
        for line in (f"{rule.code} {rule.name}", *(f"    {place}" for place in speaks[rule.name]))
    ]
    expect("who-speaks.txt", "\n".join(lines), folder=FOLDER)
