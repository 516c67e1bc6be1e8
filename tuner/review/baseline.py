"""Findings that a project knows already: a file of them, and what is new, gone or unchanged beside it.

A finding is known by the path of its input, its code and the configuration key that it is about, never by a
line, so that what moves within a file stays known. Alike ones are counted.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import is_there, read_bytes
from tuner.language import _
from tuner.review.input_findings import FindingLine, InputFindings, Silenced, SilencedBy
from tuner.review.review import BaselineComparison, KnownFinding, ReviewedInputs
from tuner.units import MIB

VERSION = 1
_MOST_BYTES = 64 * MIB

About = tuple[str, str]
"""Code of a rule, configuration key."""

Entries = dict[str, dict[About, int]]
"""How many findings are known, by the path of their input and what they are about."""


def read_baseline(file: Path) -> Entries:
    """The entries of a baseline.

    Raises:
        InputError: the file is not there, or is no baseline.
    """
    where = Location(source=str(file))
    if not is_there(file, Path.is_file):
        raise InputError(
            _("there is no baseline"), location=where, hint=_("--write-baseline FILE writes one")
        )
    try:
        # Pairs, since a dict of one key takes three times their memory, and there is one for each finding.
        return _entries(json.loads(read_bytes(file, most=_MOST_BYTES), object_pairs_hook=tuple))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            _("this is no baseline that tuner wrote"),
            location=where,
            hint=_("write it anew with --write-baseline"),
        ) from None


def _entries(content: Any) -> Entries:
    top = dict(_pairs(content))
    if top["version"] != VERSION:
        raise ValueError(top["version"])
    entries: Entries = {}
    abouts: dict[About, About] = {}  # each of them once, however many inputs have it
    for path, codes in _pairs(top["findings"]):
        known = entries[path] = {}
        for code, keys in _pairs(codes):
            for key, count in _pairs(keys):
                if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                    raise ValueError(count)
                known[abouts.setdefault((code, key), (code, key))] = count
    return entries


def _pairs(value: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(value, tuple):
        raise TypeError(value)
    return value


def entries_of(file: Path, inputs: ReviewedInputs) -> Iterator[tuple[str, Mapping[About, int]]]:
    """What a baseline of these findings holds, path by path in their order.

    Args:
        file: where it is to lie, an absolute path; its folder is what paths start from.
        inputs: with their findings.
    """
    places = sorted((path_in(file, checked.source), place) for place, checked in enumerate(inputs))
    for path, alike in groupby(places, key=itemgetter(0)):
        yield path, Counter(_about(line) for _path, place in alike for line in inputs[place].lines)


def as_json(entries: Iterable[tuple[str, Mapping[About, int]]]) -> Iterator[str]:
    """A baseline as its file has it, piece by piece: one key a line, so that changes of it are easy to read.

    Args:
        entries: by path, sorted.
    """
    yield f'{{\n  "version": {VERSION},\n  "findings": '
    before = "{"
    for path, known in entries:
        codes: dict[str, dict[str, int]] = {}
        for (code, key), count in sorted(known.items()):
            if count:
                codes.setdefault(code, {})[key] = count
        if codes:
            text = json.dumps({path: codes}, indent=2, ensure_ascii=False)
            yield before + text.removeprefix("{").removesuffix("\n}").replace("\n", "\n  ")
            before = ","
    yield "{}\n}\n" if before == "{" else "\n  }\n}\n"


class BaselineFilter:
    """Takes out of inputs what a baseline knows, one input after the other, and counts.

    Args:
        file: the baseline's, an absolute path.
        known: its entries.
    """

    def __init__(self, file: Path, known: Entries) -> None:
        self._file = file
        self._left = known
        self._new = 0
        self._unchanged = 0
        self._judged: set[str] = set()  # paths of which it knows something

    def without_known(self, checked: InputFindings) -> InputFindings:
        """One input without what is left of the baseline."""
        path = path_in(self._file, checked.source)
        left = self._left.get(path, {})
        if left and checked.problem is None:
            self._judged.add(path)
        without = _without(left, checked)
        self._new += len(without.lines)
        self._unchanged += len(checked.lines) - len(without.lines)
        return without

    def result(self) -> BaselineComparison:
        """How all inputs are beside the baseline.

        Entries of inputs that were not checked are not fixed, unless the input is there no more.
        """
        return BaselineComparison(
            file=str(self._file),
            new=self._new,
            unchanged=self._unchanged,
            fixed=tuple(
                KnownFinding(source=path, code=code, key=key, count=count)
                for path, known in sorted(self._left.items())
                if path in self._judged or not is_there(self._file.parent / path)
                for (code, key), count in sorted(known.items())
                if count
            ),
        )


def without_fixed(known: Entries, fixed: Iterable[KnownFinding]) -> Iterator[tuple[str, Mapping[About, int]]]:
    """The entries of a baseline that are not fixed, path by path in their order."""
    gone: Entries = {}
    for finding in fixed:
        gone.setdefault(finding.source, {})[finding.code, finding.key] = finding.count
    for path, entries in sorted(known.items()):
        fixed_here = gone.get(path, {})
        yield path, {about: count - fixed_here.get(about, 0) for about, count in entries.items()}


class KnownFindings(Struct, frozen=True):
    """A baseline by the inputs that it has findings of, for what asks of one input after another."""

    file: Path  # an absolute path
    entries: Entries

    def new(self, checked: InputFindings) -> tuple[FindingLine, ...]:
        """The findings of one input that the baseline does not have."""
        known = self.entries.get(path_in(self.file, checked.source), {})
        return _without(dict(known), checked).lines


def known_in(file: Path) -> KnownFindings:
    """What a baseline has.

    Raises:
        InputError: the file is not there, or is no baseline.
    """
    return KnownFindings(file.absolute(), read_baseline(file))


def _without(left: dict[About, int], checked: InputFindings) -> InputFindings:
    """One input without what is left of a baseline for it, which is counted down."""
    new: list[FindingLine] = []
    silenced: list[Silenced] = list(checked.silenced)
    for line in checked.lines:
        about = _about(line)
        if left.get(about):
            left[about] -= 1
            silenced.append(Silenced(line=line, by=SilencedBy.BASELINE))
        else:
            new.append(line)
    return replace(checked, lines=tuple(new), silenced=tuple(silenced))


def path_in(file: Path, source: str) -> str:
    """An input as a baseline names it: its path from the folder of the baseline on."""
    if not is_there(source):
        return source  # standard input, or a command as it is typed
    return Path(os.path.relpath(source, file.parent)).as_posix()


def _about(line: FindingLine) -> About:
    phase = line.finding.phase
    return line.finding.rule.code, line.key or ("" if phase is None else phase.value)
