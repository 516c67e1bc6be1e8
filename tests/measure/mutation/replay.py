"""The plugin of pytest that asks whether recorded mutants are still noticed by the test that noticed them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.measure.mutation import sample
from tests.measure.mutation.operators import Mutant, alike, mutants_of
from tests.measure.mutation.sites import LiveFunctions
from tests.measure.mutation.survey import ROOT, Verdict, killer, run_mutated
from tests.measure.mutation.trying import in_forks

RECORD = Path(__file__).parent / "survey.json"
LONGEST_S = 120.0


@dataclass(frozen=True)
class Recorded:
    """A mutant of an earlier survey as it stands in today's sources, and the test that noticed it."""

    mutant: Mutant
    test: str


def recorded(record: Path, *, part: int, parts: int) -> list[Recorded]:
    """Those of a part of the record whose text is still there; what is computed at import is left out.

    Args:
        record: what a survey has written.
        part: which of the parts.
        parts: how many there are.
    """
    rows = [
        row for row in json.loads(record.read_text()) if "::" in (row["killed_by"] or "") and row["function"]
    ]
    today = [_today(row) for row in rows[part % parts :: parts]]
    return [known for known in today if known is not None]


def _today(row: dict[str, Any]) -> Recorded | None:
    path = ROOT / row["file"]
    test = row["killed_by"]
    if not path.is_file() or not (ROOT / test.split("::")[0]).is_file():
        return None
    then = Mutant(**{name: row[name] for name in Mutant.__dataclass_fields__})
    there = alike(then, mutants_of(row["file"], path.read_text()))
    return Recorded(there[row["place"]], test) if row["place"] < len(there) else None


class Replay:
    """Tries each mutant on its one test."""

    def __init__(self, known: list[Recorded]) -> None:
        self.known = known
        self.verdicts: list[Verdict] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        there = [known for known in self.known if known.test in items]
        live = LiveFunctions(ROOT, sorted({known.mutant.file for known in there}))
        assert set(live.sources) <= set(sample.readers(ROOT))
        tasks = [lambda known=known: run_mutated(live, known.mutant, [items[known.test]]) for known in there]
        for number, outcome in in_forks(tasks, timeouts_s=[LONGEST_S] * len(tasks)):
            mutant = there[number].mutant
            self.verdicts.append(Verdict(mutant, 1, *killer(outcome)))
        return True
