"""Edits of a file's bytes, the changes that they come from, and the unified diff that they make."""

import os
import pathlib
import re
from collections.abc import Collection, Iterable, Sequence
from difflib import unified_diff
from typing import Any

from msgspec import Struct

from tuner.errors import TunerError
from tuner.inputs.overrides import OverrideKind, on_command_line, parse_overrides
from tuner.inputs.secrets import HIDDEN, has_secret
from tuner.inputs.tree import Path, split_key
from tuner.language import _
from tuner.override_text import override_key, value_text
from tuner.review.input_findings import Edit

BOM = b"\xef\xbb\xbf"


class CannotEditError(Exception):
    """Why a file cannot be edited so that it says what an override says; the text is for the user."""


class Splice:
    """A piece of a decoded text and what stands there afterwards, in characters of the text."""

    __slots__ = ("end", "new", "start")

    def __init__(self, start: int, end: int, new: str) -> None:
        self.start, self.end, self.new = start, end, new


def edits_of(data: bytes, text: str, splices: Iterable[Splice]) -> tuple[Edit, ...]:
    """Splices of a YAML file's text as edits of its bytes; those that touch become one.

    Args:
        data: the file.
        text: what it says, without the mark of its byte order.
        splices: in any order; of those at one place the first comes first.

    Raises:
        CannotEditError: two of them change the same characters.
    """
    shift = len(BOM) if data.startswith(BOM) else 0

    def byte(index: int) -> int:
        return shift + len(text[:index].encode())

    return joined(Edit(start=byte(item.start), end=byte(item.end), text=item.new) for item in splices)


def joined(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Edits in the order of the file; those that touch become one.

    Raises:
        CannotEditError: two of them change the same bytes.
    """
    together: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        last = together[-1] if together else None
        if last is None or edit.start > last.end:
            together.append(edit)
        elif edit.start == last.end:
            together[-1] = Edit(start=last.start, end=edit.end, text=last.text + edit.text)
        else:
            raise CannotEditError(_("two changes overlap"))
    return tuple(together)


def applied(data: bytes, edits: Sequence[Edit]) -> bytes:
    """The file with its edits, which are in its order and do not overlap."""
    pieces: list[bytes] = []
    at = 0
    for edit in edits:
        pieces += [data[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*pieces, data[at:]])


class KeyEdit(Struct, frozen=True, kw_only=True):
    """One key that gets another value, or is taken away."""

    path: Path
    value: Any
    deletes: bool
    override: str  # as it would be pasted

    @property
    def override_text(self) -> str:
        """The value as Hydra's grammar has it."""
        return value_text(self.override)


def key_of(override: str) -> Path:
    """The key that an override names, as a path."""
    return split_key(override_key(override))


def changes(overrides: Sequence[str]) -> tuple[KeyEdit, ...]:
    """The changes that overrides make.

    Raises:
        CannotEditError: an override is more than a key with a value.
    """
    try:
        parsed = parse_overrides(on_command_line(overrides)).overrides
    except TunerError as error:
        raise CannotEditError(error.message) from None
    if len(parsed) != len(overrides):
        raise CannotEditError(_("it is an option of Hydra, not a key"))
    made = []
    for override, text in zip(parsed, overrides, strict=True):
        if override.package is not None or "/" in override.key:
            raise CannotEditError(_("{override} chooses a group of settings").format(override=text))
        if HIDDEN in text:
            raise CannotEditError(_("the value may be a secret"))
        made.append(
            KeyEdit(
                path=split_key(override.key),
                value=override.value,
                deletes=override.kind is OverrideKind.DELETE,
                override=text,
            )
        )
    return tuple(made)


_CONTEXTS = (3, 2, 1)  # lines around a change; fewer where one of them holds a secret
_HUNK = re.compile(rb"@@ -(\d+)")
_NO_NEWLINE = b"\\ No newline at end of file\n"


def patch(file: pathlib.Path, before: bytes, after: bytes, unshown: Collection[int] = ()) -> bytes | None:
    """The unified diff of a file, by its path from the current folder.

    None where it cannot be shown: a line beside the changes may hold a secret.

    Args:
        file: the file.
        before: what it has.
        after: what it is to have.
        unshown: lines of it, from 1, that may hold a secret, whatever they look like.
    """
    name = os.path.relpath(file).replace(os.sep, "/")
    for context in _CONTEXTS:
        lines = _hunks(before, after, context)
        if not any(_has_secret(line) for line in lines) and _is_apart(lines, unshown):
            return _header("---", f"a/{name}") + _header("+++", f"b/{name}") + b"".join(lines)
    return None


def _hunks(before: bytes, after: bytes, context: int) -> list[bytes]:
    # Latin-1 keeps every byte; the comparison asks for text.
    old, new = _lines(before), _lines(after)
    diff_lines = list(unified_diff(old, new, n=context, lineterm="\n"))[2:]
    return [_ended(line.encode("latin-1")) for line in diff_lines]


def _lines(data: bytes) -> Sequence[str]:
    lines = data.decode("latin-1").split("\n")
    return [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]


def _ended(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n" + _NO_NEWLINE


def _header(mark: str, name: str) -> bytes:
    """A file's line; one with special characters is quoted as git does it."""
    raw = name.encode("utf-8", "surrogateescape")
    if any(byte < 0x20 or byte > 0x7E or byte in b'"\\' for byte in raw):
        escaped = "".join(
            chr(byte) if 0x20 <= byte <= 0x7E and byte not in b'"\\' else f"\\{byte:03o}" for byte in raw
        )
        return f'{mark} "{escaped}"\n'.encode()
    return f"{mark} {name}".encode() + (b"\t\n" if b" " in raw else b"\n")


def _is_apart(lines: Sequence[bytes], unshown: Collection[int]) -> bool:
    """Whether the hunks of a diff have none of these lines of the old file."""
    number = 0
    for line in lines:
        head = _HUNK.match(line)
        if head is not None:
            number = int(head[1])
        elif line[:1] in (b" ", b"-"):
            if number in unshown:
                return False
            number += 1
    return True


def _has_secret(line: bytes) -> bool:
    return has_secret(line.decode("utf-8", "replace")[1:])
