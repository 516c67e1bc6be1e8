"""The plugin of pytest that tries mutants on the tests it has collected, in place of running them."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest

from tests.measure.mutation import sample
from tests.measure.mutation.operators import Mutant, alike, mutants_of
from tests.measure.mutation.sites import LiveFunctions, Places
from tests.measure.mutation.trying import PROCESSES, Outcome, in_forks, progress, run_tests

ROOT = Path(__file__).parents[3]
SLOWEST_S = 120.0  # what a mutant may take beyond three times its tests, before it counts as an endless loop
TESTS_S = (
    60.0  # of tests that a mutant is tried on, as they take without it: a bound from above on what survives
)
SHARES = 5  # of the tests for each process: some files take longer than others
NUMBERS = "tests/numbers/"  # of whatever the model gives for many jobs, in a second each
SURVIVED = "survived"
NOTICED = "a test failed"
NOT_EXCHANGED = "no function in memory has this code"


@cache
def _mutants(file: str) -> list[Mutant]:
    return mutants_of(file, (ROOT / file).read_text())


@dataclass
class Verdict:
    """What came of a mutant."""

    mutant: Mutant
    tests: int = 0  # that reach it
    killed_by: str | None = None
    how: str = ""

    def row(self) -> dict[str, object]:
        place = alike(self.mutant, _mutants(self.mutant.file)).index(self.mutant)
        result = {"place": place, "tests": self.tests, "killed_by": self.killed_by, "how": self.how}
        return {**asdict(self.mutant), **result}


@dataclass
class Reach:
    """Which tests reach which probe, how long they take, and which fail by themselves."""

    tests: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)


class Survey:
    """Finds for every mutant the tests that reach its statement, and runs them until one fails."""

    def __init__(self, mutants: list[Mutant], output: Path) -> None:
        self.mutants = mutants
        self.output = output
        self.verdicts: dict[int, Verdict] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        _forget_examples()
        self.items = {item.nodeid: item for item in session.items}
        self.live = LiveFunctions(ROOT, sample.readers(ROOT))
        self.places = {file: Places(self.live.sources[file]) for file in {m.file for m in self.mutants}}
        self.probes, self.numbers = self._probes()
        progress(collected=len(self.items), mutants=len(self.mutants))
        self.reach = self._reached()
        progress(ran=len(self.reach.seconds), failing_by_themselves=sorted(self.reach.failing))
        tried = {number: self._tests(number) for number in range(len(self.mutants))}
        self._try_in_forks(tried)
        for number, names in tried.items():
            if self.verdicts[number].how in ("", NOT_EXCHANGED):
                self._try_afresh(number, names)
        self._write()
        return True

    def _probes(self) -> tuple[dict[str, dict[tuple[int, int], int]], dict[int, list[int]]]:
        """A number for each place that is probed, and for each mutant those of its places."""
        probes: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
        numbers: dict[int, list[int]] = {}
        count = 0
        for index, mutant in enumerate(self.mutants):
            place = self.places[mutant.file].statement_of(mutant)
            wanted = [(mutant.file, place)] if place else list(self._readers(mutant))
            numbers[index] = []
            for file, position in wanted:
                if position not in probes[file]:
                    probes[file][position] = count
                    count += 1
                numbers[index].append(probes[file][position])
        return probes, numbers

    def _readers(self, mutant: Mutant) -> list[tuple[str, tuple[int, int]]]:
        """The functions that may see what a module computes at import: its own, and users of the name."""
        name = self.places[mutant.file].defined_by(mutant)
        places = [(mutant.file, place) for place in self.places[mutant.file].functions()]
        if name is None:
            return places
        for file, source in self.live.sources.items():
            if file != mutant.file and name in source:
                places += [(file, place) for place in Places(source).functions()]
        return places

    def _reached(self) -> Reach:
        parts = _by_file(list(self.items.values()), SHARES * PROCESSES)
        tasks = [lambda part=part: self._run_with_probes(part) for part in parts]
        reach = Reach()
        for _, outcome in in_forks(tasks, timeouts_s=[3600.0] * len(tasks)):
            if outcome.error is not None:
                raise RuntimeError(outcome.error)
            assert isinstance(outcome.value, Reach)
            for number, names in outcome.value.tests.items():
                reach.tests[number] |= names
            reach.seconds |= outcome.value.seconds
            reach.failing |= outcome.value.failing
        return reach

    def _run_with_probes(self, items: list[pytest.Item]) -> Reach:
        reach = Reach()
        current = [""]
        self.live.with_probes(self.probes, lambda number: reach.tests[number].add(current[0]))
        failures = run_tests(
            items, until_failure=False, before=lambda item: current.__setitem__(0, item.nodeid)
        )
        reach.seconds, reach.failing = failures.seconds, set(failures.failed)
        return Reach(dict(reach.tests), reach.seconds, reach.failing)

    def _tests(self, number: int) -> list[str]:
        """The tests that reach a mutant, the fastest first up to a bound, then those that list numbers."""
        names = set().union(*(self.reach.tests.get(probe, set()) for probe in self.numbers[number]))
        ordered = sorted(names - self.reach.failing, key=lambda name: self.reach.seconds.get(name, 0.0))
        listings = [name for name in ordered if name.startswith(NUMBERS)]
        others = [name for name in ordered if not name.startswith(NUMBERS)]
        return [*self._within_bound(others), *self._within_bound(listings)]

    def _within_bound(self, names: list[str]) -> list[str]:
        ends = accumulate(self.reach.seconds.get(name, 0.0) for name in names)
        return [name for name, end in zip(names, ends, strict=True) if end <= TESTS_S] or names[:1]

    def _try_in_forks(self, tried: dict[int, list[str]]) -> None:
        """Mutants of functions: their code is exchanged in a fork. Others wait for a process of their own.

        A test that fails behind others may fail for what those left: it has to fail alone as well.
        """
        for number, names in tried.items():
            self.verdicts[number] = Verdict(self.mutants[number], tests=len(names))
        waiting = {n: names for n, names in tried.items() if names and self.mutants[n].function}
        while waiting:
            noticed = {}
            for number, (test, how) in self._outcomes(waiting):
                verdict = self.verdicts[number]
                verdict.killed_by, verdict.how = test, how
                progress(file=verdict.mutant.file, line=verdict.mutant.line, killed_by=test)
                self._write()
                if how == NOTICED and test is not None:
                    noticed[number] = [test]
            alone = dict(self._outcomes(noticed))
            waiting = {
                number: [name for name in waiting[number] if name != test]
                for number, (test,) in noticed.items()
                if alone[number][0] is None
            }
            progress(again=len(waiting))

    def _outcomes(self, tried: dict[int, list[str]]) -> Iterator[tuple[int, tuple[str | None, str]]]:
        """What notices each mutant among its tests, each in a fork of its own, as they end."""
        numbers = list(tried)
        tasks = [lambda n=n: run_mutated(self.live, self.mutants[n], self._items(tried[n])) for n in numbers]
        limits = [
            SLOWEST_S + 3 * sum(self.reach.seconds.get(name, 0.0) for name in tried[n]) for n in numbers
        ]
        for at, outcome in in_forks(tasks, timeouts_s=limits):
            yield numbers[at], killer(outcome)

    def _items(self, names: list[str]) -> list[pytest.Item]:
        return [self.items[name] for name in names]

    def _try_afresh(self, number: int, names: list[str]) -> None:
        """What is computed at import, in a process of its own with the file itself changed."""
        verdict = self.verdicts[number]
        if not names:
            verdict.how = "no test reaches it"
            return
        verdict.killed_by, verdict.how = _afresh(self.mutants[number], names, self.output.parent)
        progress(
            file=verdict.mutant.file, line=verdict.mutant.line, afresh=verdict.killed_by, how=verdict.how
        )
        self._write()

    def _write(self) -> None:
        rows = [self.verdicts[number].row() for number in sorted(self.verdicts)]
        self.output.write_text(json.dumps(rows, indent=1) + "\n")


def _by_file(items: list[pytest.Item], parts: int) -> list[list[pytest.Item]]:
    """Tests shared out by file, so that what a file computes once is computed once."""
    files: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.nodeid.split("::")[0]].append(item)
    shares: list[list[pytest.Item]] = [[] for _ in range(parts)]
    for group in sorted(files.values(), key=len, reverse=True):
        min(shares, key=len).extend(group)
    return [share for share in shares if share]


def run_mutated(live: LiveFunctions, mutant: Mutant, items: list[pytest.Item]) -> str:
    """The test that fails in this process once a mutant's code is in it; else why there is none."""
    if not live.exchange(mutant.file, mutant.applied(live.sources[mutant.file]), {mutant.function}):
        return NOT_EXCHANGED
    failures = run_tests(items, until_failure=True)
    return failures.failed[0] if failures.failed else SURVIVED


def killer(outcome: Outcome) -> tuple[str | None, str]:
    """What noticed a mutant, None where nothing did, and how."""
    if outcome.error == "took too long":
        return outcome.error, "an endless loop"
    if outcome.error is not None:
        return outcome.error.splitlines()[-1], "the process of the tests failed"
    name = str(outcome.value)
    return (None, name) if name in (SURVIVED, NOT_EXCHANGED) else (name, NOTICED)


def _afresh(mutant: Mutant, names: list[str], folder: Path) -> tuple[str | None, str]:
    copy = folder / "mutated"
    if not copy.exists():
        copied = ["git", "-C", str(ROOT), "ls-files", "-z"]
        tracked = subprocess.run(copied, capture_output=True, check=True).stdout.split(b"\0")
        for name in filter(None, (name.decode() for name in tracked)):
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
        (folder / "shared").symlink_to(ROOT.parent / "shared")
    target, source = copy / mutant.file, (ROOT / mutant.file).read_text()
    target.write_text(mutant.applied(source))
    try:
        return _first_failure(copy, names, mutant)
    except subprocess.TimeoutExpired:
        return "took too long", "an endless loop"
    finally:
        target.write_text(source)


def _first_failure(copy: Path, names: list[str], mutant: Mutant) -> tuple[str | None, str]:
    """The test that fails in a changed copy; those that the change has named otherwise are left out."""
    listed = copy.parent / "tests.txt"
    # Some tests are named by files of theirs.
    wanted = [name.replace(str(ROOT), str(copy)) for name in names]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--slice", "all", f"@{listed}"]
    while wanted:
        listed.write_text("".join(f"{name}\n" for name in wanted))
        run = subprocess.run(
            command, cwd=copy, capture_output=True, text=True, timeout=3600, env=_environment(copy)
        )
        if run.returncode == 0:
            break
        failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED ", "ERROR tests/"))]
        if failed:
            return failed[-1][:300], "a test failed in a process of its own"
        gone = set(re.findall(r"ERROR: not found: (?:\S*?/mutated/)?(\S+)", run.stderr + run.stdout))
        left = [name for name in wanted if name.partition("[")[0] not in gone]
        if len(left) == len(wanted):  # nothing was run, which says nothing
            raise RuntimeError(f"{mutant.file}:{mutant.line}: {run.stdout[-2000:]}{run.stderr[-2000:]}")
        wanted = left
    return None, SURVIVED


def _environment(copy: Path) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(copy), "PYTHONPYCACHEPREFIX": str(copy.parent / "bytecode")}


def _forget_examples() -> None:
    """Failing examples that hypothesis finds in a mutant are no examples of the project's."""
    from hypothesis import settings

    settings.register_profile("survey", deadline=None, database=None)
    settings.load_profile("survey")
