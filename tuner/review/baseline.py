"""Findings that a project knows already: a file of them, and what is new, gone or unchanged beside it.

A finding is known by the path of its input, its code and the configuration key that it is about, never by a
line, so that what moves within a file stays known. Alike ones are counted.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import is_there, read_bytes
from tuner.language import _
from tuner.review.checked import BesideBaseline, Checked, KnownFinding, Line, Silenced, SilencedBy
from tuner.units import MIB

VERSION = 1
_MOST_BYTES = 64 * MIB

Key = tuple[str, str, str]
"""Path of an input, code of a rule, configuration key."""


def read_baseline(file: Path) -> Counter[Key]:
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
        content = json.loads(read_bytes(file, most=_MOST_BYTES))
        return _entries(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            _("this is no baseline that tuner wrote"),
            location=where,
            hint=_("write it anew with --write-baseline"),
        ) from None


def _entries(content: Any) -> Counter[Key]:
    if content["version"] != VERSION:
        raise ValueError(content["version"])
    entries: Counter[Key] = Counter()
    for path, codes in content["findings"].items():
        for code, keys in codes.items():
            for key, count in keys.items():
                if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                    raise ValueError(count)
                entries[path, code, key] = count
    return entries


def entries_of(file: Path, inputs: Iterable[Checked]) -> Counter[Key]:
    """What a baseline of these findings holds.

    Args:
        file: where it is to lie, an absolute path; its folder is what paths start from.
        inputs: with their findings.
    """
    return Counter(_key(file, checked.source, line) for checked in inputs for line in checked.lines)


def as_json(entries: Mapping[Key, int]) -> str:
    """A baseline as its file has it: sorted, one key a line, so that changes of it are easy to read."""
    findings: dict[str, dict[str, dict[str, int]]] = {}
    for (path, code, key), count in sorted(entries.items()):
        if count:
            findings.setdefault(path, {}).setdefault(code, {})[key] = count
    return json.dumps({"version": VERSION, "findings": findings}, indent=2, ensure_ascii=False) + "\n"


class Compared(Struct, frozen=True, kw_only=True):
    """Inputs without what a baseline knows of them."""

    inputs: tuple[Checked, ...]
    beside: BesideBaseline
    kept: Mapping[Key, int]  # what the baseline is without the entries that are fixed


def compare(file: Path, known: Mapping[Key, int], inputs: Sequence[Checked]) -> Compared:
    """Take out of the inputs what a baseline knows.

    Entries of inputs that are not checked in this run stay, unless the input is there no more.

    Args:
        file: the baseline's, an absolute path.
        known: its entries.
        inputs: in their order.
    """
    left = Counter(known)
    compared = tuple(_without(file, left, checked) for checked in inputs)
    judged = {path_in(file, checked.source) for checked in inputs if checked.problem is None}
    fixed = {
        key: count
        for key, count in sorted(left.items())
        if count and (key[0] in judged or not is_there(file.parent / key[0]))
    }
    beside = BesideBaseline(
        file=str(file),
        new=sum(len(checked.lines) for checked in compared),
        unchanged=sum(known.values()) - sum(left.values()),
        fixed=tuple(
            KnownFinding(source=path, code=code, key=about, count=count)
            for (path, code, about), count in fixed.items()
        ),
    )
    kept = {key: count - fixed.get(key, 0) for key, count in known.items()}
    return Compared(inputs=compared, beside=beside, kept=kept)


class Known(Struct, frozen=True):
    """A baseline by the inputs that it has findings of, for what asks of one input after another."""

    file: Path  # an absolute path
    by_path: Mapping[str, Mapping[Key, int]]

    def new(self, checked: Checked) -> tuple[Line, ...]:
        """The findings of one input that the baseline does not have."""
        path = path_in(self.file, checked.source)
        return _without(self.file, Counter(self.by_path.get(path, {})), checked).lines


def known_in(file: Path) -> Known:
    """What a baseline has.

    Raises:
        InputError: the file is not there, or is no baseline.
    """
    by_path: dict[str, dict[Key, int]] = {}
    for key, count in read_baseline(file).items():
        by_path.setdefault(key[0], {})[key] = count
    return Known(file.absolute(), by_path)


def _without(file: Path, left: Counter[Key], checked: Checked) -> Checked:
    """One input without what is left of a baseline, which is counted down."""
    new: list[Line] = []
    silenced: list[Silenced] = list(checked.silenced)
    for line in checked.lines:
        key = _key(file, checked.source, line)
        if left[key]:
            left[key] -= 1
            silenced.append(Silenced(line=line, by=SilencedBy.BASELINE))
        else:
            new.append(line)
    return replace(checked, lines=tuple(new), silenced=tuple(silenced))


def path_in(file: Path, source: str) -> str:
    """An input as a baseline names it: its path from the folder of the baseline on."""
    if not is_there(source):
        return source  # standard input, or a command as it is typed
    return Path(os.path.relpath(source, file.parent)).as_posix()


def _key(file: Path, source: str, line: Line) -> Key:
    phase = line.finding.phase
    about = line.key or ("" if phase is None else phase.value)
    return path_in(file, source), line.finding.rule.code, about
