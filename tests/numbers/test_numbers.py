"""Every number that the model gives for some two hundred jobs, as it is today.

The jobs are the bases of the rules' examples, the bad example of every rule, and some of verl's own launches.
A number worked out by hand or measured is worth more, and stands in the test of its term. This listing sees
that no other one changes unseen. ``UPDATE_GOLDEN=1 pytest tests/numbers`` writes it anew: read in the
difference whether each number ought to have changed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.golden import expect
from tests.numbers.listing import listing
from tests.tables import bases, scene, table
from tuner import rules
from tuner.workload import Workload

FOLDER = Path(__file__).parent / "golden"
RULES = sorted((module.RULE for module in rules.modules()), key=lambda rule: rule.code)
TOPICS = sorted({rule.code[:3] for rule in RULES})


def jobs(topic: str) -> Iterator[tuple[str, Workload]]:
    """The bad examples of a topic's rules, each once."""
    for rule in RULES:
        if rule.code.startswith(topic):
            yield f"{rule.code} {rule.name}", scene(table(rule.name).bad_base, table(rule.name).bad).workload


def text(named: Iterator[tuple[str, Workload]]) -> str:
    return "\n".join(line for name, workload in named for line in (f"# {name}", *listing(workload), ""))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("topic", TOPICS)
def test_bad_examples(topic: str) -> None:
    expect(f"{topic}.txt", text(jobs(topic)), folder=FOLDER)


@pytest.mark.parametrize("base", sorted(bases()))
def test_bases(base: str) -> None:
    expect(f"base-{base}.txt", text(iter([(base, scene(bases()[base]).workload)])), folder=FOLDER)
