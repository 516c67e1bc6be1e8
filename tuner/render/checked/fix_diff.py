"""A fix as the lines that it takes out of a file and puts in."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from tuner.errors import InputError
from tuner.files import read_bytes
from tuner.inputs.secrets import has_secret
from tuner.render.terminal import plain
from tuner.review.input_findings import Edit, Fix
from tuner.units import MIB

_MOST_BYTES = 16 * MIB


def fix_diff(fix: Fix) -> tuple[str, ...]:
    """The lines that change, ``- ...`` before ``+ ...``; none where the file cannot be read any more."""
    try:
        content = read_bytes(Path(fix.source), most=_MOST_BYTES)
    except InputError:
        return ()
    before = content.decode("utf-8", "replace").splitlines()
    after = _edited(content, fix.edits).decode("utf-8", "replace").splitlines()
    return tuple(_changed(before, after))


def _edited(content: bytes, edits: tuple[Edit, ...]) -> bytes:
    for edit in reversed(edits):
        content = content[: edit.start] + edit.text.encode() + content[edit.end :]
    return content


def _changed(before: list[str], after: list[str]) -> Iterator[str]:
    matched = SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, new_start, new_end in matched.get_opcodes():
        if kind != "equal":
            yield from (f"- {_shown(line)}" for line in before[start:end])
            yield from (f"+ {_shown(line)}" for line in after[new_start:new_end])


def _shown(line: str) -> str:
    return "..." if has_secret(line) else plain(line.replace("\t", "    "))
