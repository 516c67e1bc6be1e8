"""The survey by mutants: what it changes, and that a sample of what it found holds in every run.

``survey.json`` is what a survey wrote. Each mutant of it is tried again on the test that noticed it. Run
the survey anew where too many of its lines have changed.
"""

import ast
import json
import os
import subprocess
import sys

import pytest

from tests.measure.mutation.operators import compiles, mutants_of
from tests.measure.mutation.replay import RECORD, ROOT, recorded
from tests.measure.mutation.sites import Places
from tests.measure.mutation.survey import SURVIVED

SOURCE = '''"""A module."""

LIMIT = 3


def size(a, b, c=2):
    """Text."""
    if a < b and not c:
        return max(a, b) * 1.5
    return [x for x in (a, b) if x] or (a if b else c)


class Row:
    read = lambda self: self.a + self.b
'''
PARTS = 20


def test_each_operator_changes_what_it_says() -> None:
    changes = {(m.function, m.operator, m.before, m.after) for m in mutants_of("m.py", SOURCE)}
    assert {
        ("", "constant", "3", "4"),
        ("", "constant", "2", "3"),
        ("size", "comparison", "<", "<="),
        ("size", "and, or", "a < b and not c", "((a < b) or (not c))"),
        ("size", "condition dropped", "a < b and not c", "((a < b))"),
        ("size", "not, minus", "not c", "(c)"),
        ("size", "min, max, any, all", "max", "min"),
        ("size", "arithmetic", "*", "/"),
        ("size", "term dropped", "max(a, b) * 1.5", "(1.5)"),
        ("size", "constant", "1.5", "3.0"),
        ("size", "filter dropped", "x", "True"),
        ("size", "one branch", "a if b else c", "(c)"),
        ("size", "element dropped", "a, ", ""),
        ("Row.<lambda>", "arithmetic", "+", "-"),
    } <= changes


def test_mutants_are_programs_that_differ() -> None:
    mutants = [mutant for mutant in mutants_of("m.py", SOURCE) if compiles(mutant, SOURCE)]
    texts = {ast.dump(ast.parse(mutant.applied(SOURCE))) for mutant in mutants}
    assert ast.dump(ast.parse(SOURCE)) not in texts
    assert len(mutants) > 20


def test_a_mutant_stands_in_a_statement_or_is_computed_at_import() -> None:
    places = Places(SOURCE)
    lines = {
        (mutant.function, mutant.before): places.statement_of(mutant) for mutant in mutants_of("m.py", SOURCE)
    }
    assert lines["", "3"] is None
    assert lines["size", "<"] == (8, 4)
    assert lines["size", "1.5"] == (9, 8)
    assert lines["Row.<lambda>", "+"] == (14, 11)


def test_most_of_the_record_is_about_today_s_sources() -> None:
    rows = [
        row for row in json.loads(RECORD.read_text()) if row["function"] and "::" in (row["killed_by"] or "")
    ]
    assert len(recorded(RECORD, part=0, parts=1)) > 0.5 * len(rows)


def test_nine_of_ten_changes_were_noticed_and_the_others_are_told_apart() -> None:
    """What changes nothing says why, one by one; there are no more than ten of them."""
    rows = json.loads(RECORD.read_text())
    left = [row for row in rows if row["killed_by"] is None]
    equivalent = [row for row in left if row["how"].startswith("changes nothing")]
    assert len(rows) == 200
    assert len(rows) - len(left) >= 180
    assert len(equivalent) <= 10
    assert {row["how"] for row in left if row not in equivalent} <= {SURVIVED}


@pytest.mark.slow
@pytest.mark.sampled(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_recorded_mutants_are_still_noticed(part: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.measure.mutation", "--replay", f"{part}/{PARTS}"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=600)
    outcome = json.loads(run.stdout.splitlines()[-1])
    assert outcome["replayed"], run.stdout + run.stderr
    assert not outcome["lost"]
