"""Finds the value behind a key in one line of YAML or of a script."""

import re

_OVERRIDE = re.compile(r"""(?:\+\+|[+~])?[A-Za-z_][\w./@:-]*=""")
_DELETION = re.compile(r"""~[A-Za-z_][\w./@:-]*""")
_OPENED = re.compile(r"""(['"]?)""")
_SHELL_VALUE = re.compile(
    r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\$\{[^}]*\}|\$\((?:\([^()]*\)|[^()])*\)|\\.|[^\s\\"';|&)])+""", re.DOTALL
)
_IN_QUOTES = {"'": re.compile(r"[^']+"), '"': re.compile(r'(?:\\.|[^"\\])+')}
_YAML_KEY = re.compile(
    r"""(?:"(?:\\.|[^"\\])*"|'(?:[^']|'')*'|[^\s:{}\[\],#'"][^:{}\[\],#]*?)\s*:(?:\s+|$)"""
)
_QUOTED = re.compile(r""""(?:\\.|[^"\\])*"|'(?:[^']|'')*'""")
_PLAIN = re.compile(r"(?:(?!\s#).)+")
_PLAIN_IN_FLOW = re.compile(r"(?:(?!\s#)[^,\[\]{}])+")
_NO_SCALAR = "|>&!*#%@`{["  # a block, an anchor, a tag, a collection: the key is what is shown


def value_span(text: str, start: int) -> tuple[int, int]:
    """Where a value begins and ends, in characters of its line.

    Args:
        text: the line.
        start: where its key stands, or the value itself where that has no key.

    Returns:
        The first character and the one behind the last; those of the key where the line has no value for it.
    """
    quote = _OPENED.match(text, start)
    assert quote is not None
    override = _OVERRIDE.match(text, quote.end())
    if override is not None:
        value = _IN_QUOTES.get(quote[1], _SHELL_VALUE).match(text, override.end())
        return value.span() if value is not None else (quote.end(), override.end() - 1)
    deletion = _DELETION.match(text, quote.end())
    if deletion is not None:  # it has no value: the override is what is shown
        return start, deletion.end() + len(quote[1])
    key = _YAML_KEY.match(text, start)
    if key is None:
        return _word(text, start)
    scalar = _scalar(text, key.end(), in_flow=_inside_brackets(text[:start]))
    return scalar or (start, start + len(key[0].rstrip().rstrip(":").rstrip()))


def _word(text: str, start: int) -> tuple[int, int]:
    """An entry of a list, or a word of a script."""
    scalar = _scalar(text, start, in_flow=_inside_brackets(text[:start]))
    return scalar or (start, min(start + 1, len(text)))


def _scalar(text: str, start: int, *, in_flow: bool) -> tuple[int, int] | None:
    if start >= len(text) or text[start] in _NO_SCALAR:
        return None
    value = _QUOTED.match(text, start) or (_PLAIN_IN_FLOW if in_flow else _PLAIN).match(text, start)
    if value is None:
        return None
    return start, start + len(value[0].rstrip())


def _inside_brackets(before: str) -> bool:
    bare = _QUOTED.sub("", before)
    return bare.count("{") + bare.count("[") > bare.count("}") + bare.count("]")
