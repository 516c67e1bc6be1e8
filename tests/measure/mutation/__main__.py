"""Changes the model in one place at a time and asks whether a test notices; run it from the repository.

    PYTHONPATH=. python -m tests.measure.mutation --output FOLDER/survey.json

The mutants are drawn from all that the operators of ``operators.py`` make of the surveyed folders, by a seed.
The tests are collected and run once, with a probe in each mutant's statement, which tells the tests that
reach it. Then each mutant's tests run, the fastest first, until one fails. What a module computes at import
is tried in a process of its own, with the file itself changed. Tests that start processes do not see a change
within a function: they are not counted. Takes an hour on two cores.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.measure.mutation import sample
from tests.measure.mutation.operators import Mutant
from tests.measure.mutation.replay import RECORD, Replay, recorded
from tests.measure.mutation.survey import ROOT, Survey

#: Folders of tests that do not ask the surveyed code, or ask it in other processes only.
APART = ("benchmarks", "docs", "fuzz", "inside_verl", "kernels", "language", "measure", "validate")


def main() -> None:
    """Runs a survey, writes what came of each mutant, and prints the share that tests noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=sample.SEED)
    parser.add_argument("--number", type=int, default=sample.NUMBER)
    parser.add_argument("--folders", nargs="*", default=sample.FOLDERS, help="below tuner")
    parser.add_argument("--only", type=Path, help="a survey whose survivors are tried again")
    parser.add_argument("--output", type=Path, help="the JSON file; its folder holds a copy")
    parser.add_argument(
        "--replay", help="PART/PARTS of the committed survey: is each still noticed by its test?"
    )
    parser.add_argument("tests", nargs="*", help="files and folders of tests; all")
    arguments = parser.parse_args()
    if arguments.replay:
        replay(*map(int, arguments.replay.split("/")))
        return
    if arguments.output is None:
        parser.error("--output is missing")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    if arguments.only:
        mutants = _survivors(arguments.only)
    else:
        mutants = sample.drawn(
            ROOT, seed=arguments.seed, number=arguments.number, folders=tuple(arguments.folders)
        )
    survey = Survey(mutants, arguments.output)
    tests = arguments.tests or [str(ROOT / "tests"), *(f"--ignore={ROOT / 'tests' / name}" for name in APART)]
    code = pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *tests], plugins=[survey])
    if not survey.verdicts:
        raise SystemExit(code)
    counts = Counter(verdict.how for verdict in survey.verdicts.values())
    killed = sum(verdict.killed_by is not None for verdict in survey.verdicts.values())
    print(json.dumps({"killed": killed, "of": len(survey.verdicts), **counts}, indent=1))


def replay(part: int, parts: int) -> None:
    """Tries a part of the committed survey again, and says what is no longer noticed."""
    known = recorded(RECORD, part=part, parts=parts)
    again = Replay(known)
    files = sorted({str(ROOT / entry.test.split("::")[0]) for entry in known})
    pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *files], plugins=[again])
    lost = [verdict.row() for verdict in again.verdicts if verdict.killed_by is None]
    print(json.dumps({"replayed": len(again.verdicts), "lost": lost}))


def _survivors(file: Path) -> list[Mutant]:
    rows = [row for row in json.loads(file.read_text()) if row["killed_by"] is None]
    fields = Mutant.__dataclass_fields__
    return [Mutant(**{name: row[name] for name in fields}) for row in rows]


if __name__ == "__main__":
    main()
