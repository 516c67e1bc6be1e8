"""Changes of a file as a unified diff that ``git apply`` and ``patch`` take."""

import os
import re
from collections.abc import Collection, Sequence
from difflib import unified_diff
from pathlib import Path

from tuner.inputs.secrets import has_secret

_CONTEXTS = (3, 2, 1)  # lines around a change; fewer where one of them holds a secret
_HUNK = re.compile(rb"@@ -(\d+)")
_NO_NEWLINE = b"\\ No newline at end of file\n"


def patch(file: Path, before: bytes, after: bytes, unshown: Collection[int] = ()) -> bytes | None:
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
    told = list(unified_diff(old, new, n=context, lineterm="\n"))[2:]
    return [_ended(line.encode("latin-1")) for line in told]


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
