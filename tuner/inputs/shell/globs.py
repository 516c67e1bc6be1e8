"""Patterns of the shell as regular expressions: ``*``, ``?``, ``[...]`` and ``@(a|b)`` with its relatives.

Source: GNU Bash manual, "Pattern Matching". Alternatives count whether ``extglob`` is set or not: a script
that has them sets it, or the shell would not read it.
"""

import re
from fnmatch import translate
from functools import lru_cache

_WHOLE = re.compile(r"^\(\?s:(.*)\)\\[Zz]$", re.DOTALL)
_GROUP = re.compile(r"([?*+@!])\(")
_BRACKET = re.compile(r"\[[!^]?\]?(?:\[:\w+:\]|[^\]])*\]")
_CLASS = re.compile(r"\[:(\w+):\]")
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \t",
    "digit": "0-9",
    "lower": "a-z",
    "space": " \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_MOST_GROUPS = 4  # in one pattern; what they may try grows with it
_REPEATS = {"?": "?", "*": "*", "+": "+", "@": ""}


@lru_cache(maxsize=256)
def expression(glob: str) -> str:
    """A pattern as a regular expression without its ends."""
    groups = _GROUP.findall(glob)
    # A repetition within another one could take for ever; no script that was seen has one.
    if not groups or len(groups) > _MOST_GROUPS or sum(kind in "*+" for kind in groups) > 1:
        return _plain(glob)
    return _translated(glob)[0]


def _plain(glob: str) -> str:
    members = _BRACKET.sub(lambda match: _CLASS.sub(_members, match[0]), glob)
    return _WHOLE.sub(r"\1", translate(members.replace("[^", "[!")))


def _members(match: re.Match[str]) -> str:
    """``[:space:]`` in brackets as the characters that it stands for."""
    return _CLASSES.get(match[1], match[0])


def _translated(glob: str) -> tuple[str, str]:
    """The alternatives of a group, and what stands behind its end."""
    pieces: list[str] = []
    rest = glob
    while rest:
        group = _GROUP.search(rest)
        end = re.search(r"[|)]", rest)
        if end is not None and (group is None or end.start() < group.start()):
            pieces += [_plain(rest[: end.start()]), end[0]]
            rest = rest[end.end() :]
            if end[0] == ")":
                return "".join(pieces[:-1]), rest
        elif group is None:
            pieces.append(_plain(rest))
            rest = ""
        else:
            inside, behind = _translated(rest[group.end() :])
            pieces += [_plain(rest[: group.start()]), _grouped(group[1], inside, behind)]
            rest = behind
    return "".join(pieces), ""


def _grouped(kind: str, inside: str, behind: str) -> str:
    if kind == "!":  # what matches nothing inside, up to what stands behind
        ends = "" if re.search(r"[|)]", behind) else expression(behind) + r"\Z"
        return f"(?!(?:{inside}){ends}).*"
    return f"(?:{inside}){_REPEATS[kind]}"
