"""Keeps secrets of what a user gives out of everything that is shown: the one place where the rule stands.

A value is shown only where it is known to be no secret:

* Whatever has the shape of a credential is hidden, wherever it stands (``shapes.py``).
* So is what a name says is a secret: ``DB_PASS``, ``hf_token``, ``Authorization`` (``names.py``).
* The value of a key that the release has is shown otherwise: a model, a path, a name of a project.
* Elsewhere the user makes up the keys: headers, variables of the environment, sections that are handed on to
  other programs, keys that the release does not have. There a value is shown where it is a number, a boolean,
  null, a reference to another key or variable, or a common word of training (``harmless.py``), or where a
  variable is known to decide something, such as ``NCCL_DEBUG``.

What is written to be run again carries values as they stand: see :func:`carried`.
"""

import re
from collections.abc import Container, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import count
from typing import Any

from tuner.inputs.secrets.harmless import is_harmless, is_reference
from tuner.inputs.secrets.names import decides, is_certain, is_free, is_likely
from tuner.inputs.secrets.shapes import without_digits, without_shapes

HIDDEN = "hidden"

_SHORT = 512  # characters: longer texts are seldom met again
_NOTHING = frozenset({"", "null", "none", "true", "false", "~", "???", HIDDEN})
_FULL_WIDTH = "，、。；：（）「」"  # noqa: RUF001  # punctuation of Chinese messages ends a value
_QUOTED = r"\"(?:[^\"\\]|\\.){0,2000}\"|'[^']{0,2000}'"  # bounded: a text may have many that are open


# Patterns are compiled where a text needs them: many commands print nothing that does.
@cache
def _assigned() -> re.Pattern[str]:
    """A name and its value as a shell, a mapping or a header has them."""
    return re.compile(
        rf"(?P<head>(?<![\w.$-])(?P<name>[A-Za-z_][\w.-]*)[\"']?\s?(?:=|:\s?))(?P<value>{_QUOTED}|[^\s\"',{{}}\[\](){_FULL_WIDTH}]+)"
    )


@cache
def _option() -> re.Pattern[str]:
    return re.compile(
        rf"(?P<head>(?<![\w-])--?(?P<name>[A-Za-z][\w-]*)\s+)(?P<value>{_QUOTED}|[^\s\"'-][^\s\"',]*)"
    )


@cache
def _shell_name() -> re.Pattern[str]:
    return re.compile(r"[A-Z][A-Z0-9_]*")


@cache
def _in_sentence() -> re.Pattern[str]:
    return re.compile(r"\b(?:a|an|the|each|one|per|of|no|this|that|your) $")


_LONGEST_ARTICLE = 6  # characters of the pattern above, with the blanks around
_carrying = False


@contextmanager
def carried() -> Iterator[None]:
    """While it lasts, what is read keeps its secrets: for settings that are written to be run again."""
    global _carrying
    before, _carrying = _carrying, True
    try:
        yield
    finally:
        _carrying = before


def is_carried() -> bool:
    """Whether what is read keeps its secrets."""
    return _carrying


def is_secret(name: str, value: Any) -> bool:
    """Whether a value is a secret by its name: ``WANDB_API_KEY``, ``HF_TOKEN``, ``DB_PASS``."""
    if isinstance(value, bool) or value is None:
        return False
    bare = str(value).strip("'\"")
    if bare.lower() in _NOTHING or is_reference(bare):
        return False
    return is_certain(name) or (is_likely(name) and not is_harmless(bare))


def taken_value(key: str, value: Any) -> Any:
    """A value as it is taken out of an input: without its secrets, unless they are carried.

    What only may be one stays: programs that the input starts are followed with it.
    """
    return value if _carrying else _without_secrets(key, value)


def taken_override(text: str) -> str:
    """An override as it is taken out of an input: without its secret, unless it is carried."""
    return text if _carrying else _taken_override(text)


def taken_text(text: str) -> str:
    """A text as it is taken out of an input: without its secrets, unless they are carried."""
    return text if _carrying else _cleaned(text, strict=False)


def _without_secrets(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        children = [_without_secrets(str(name), child) for name, child in value.items()]
        return dict(zip(_keys(value, strict=False), children, strict=True))
    if isinstance(value, list):
        return [_without_secrets(key, child) for child in value]
    if is_secret(key.rpartition(".")[2], value):
        return HIDDEN
    return _cleaned(value, strict=False) if isinstance(value, str) else value


def _keys(section: dict[Any, Any], *, strict: bool) -> list[str]:
    """The keys of a section without secrets; those that are one stay apart from each other."""
    keys: list[str] = []
    for name in section:
        keys.append(apart(_cleaned(str(name), strict=strict), keys))
    return keys


def apart(key: str, others: Container[str]) -> str:
    """A key from which a secret is taken, apart from others that have had one as well."""
    if HIDDEN not in key or key not in others:
        return key
    return next(name for number in count(2) if (name := f"{key}{number}") not in others)


@lru_cache(maxsize=2048)  # alike configurations have most of theirs in common
def _taken_override(text: str) -> str:
    parts = _parts(text)
    if parts is None:
        return _cleaned(text, strict=False)
    return f"{_cleaned(parts[0], strict=False)}={_without_secrets(parts[0].lstrip('+~'), parts[1])}"


def _parts(text: str) -> tuple[str, str] | None:
    """The key and the value of an override; None of another word."""
    key, equals, value = text.partition("=")
    return None if not equals or not key or any(blank in key for blank in " \t\n\"'") else (key, value)


def hidden_value(key: str, value: Any) -> Any:
    """A value of a configuration with a word in place of whatever may be a secret, by its dotted key."""
    if isinstance(value, dict):
        children = [hidden_value(f"{key}.{name}", child) for name, child in value.items()]
        return dict(zip(_keys(value, strict=True), children, strict=True))
    if isinstance(value, list):
        return [hidden_value(key, child) for child in value]
    if isinstance(value, bool) or value is None:
        return value
    name = key.rpartition(".")[2]
    if is_secret(name, value) or (is_free(key) and not (decides(name) or is_harmless(value))):
        return HIDDEN
    return without_secrets(value) if isinstance(value, str) else value


def shown_value(key: str, value: Any, *, known: bool) -> Any:
    """A value of a configuration as it may be shown.

    Args:
        key: dotted.
        value: of the key.
        known: whether the release has the key.
    """
    shown = hidden_value(key, value)
    if known:
        return _without_unknown(shown)
    return shown if is_harmless(shown) or decides(key.rpartition(".")[2]) else _without_unknown(shown, HIDDEN)


def _without_unknown(value: Any, text: str | None = None) -> Any:
    """A value without what stands in sections within it; and a word for its own texts, where one is given."""
    if isinstance(value, dict):
        return {name: _without_unknown(child, HIDDEN) for name, child in value.items()}
    if isinstance(value, list):
        return [_without_unknown(child, text) for child in value]
    return value if text is None or is_harmless(value) else text


def hidden_override(text: str) -> str:
    """An override, or another word of a command line, without what may be a secret."""
    parts = _parts(text)
    if parts is None:
        return without_secrets(text)
    return f"{without_secrets(parts[0])}={hidden_value(parts[0].lstrip('+~-'), parts[1])}"


def shown_override(text: str, *, known: bool) -> str:
    """An override as it may be shown; ``known`` tells whether the release has its key."""
    parts = _parts(text)
    if parts is None:
        return without_secrets(text)
    return f"{without_secrets(parts[0])}={shown_value(parts[0].lstrip('+~-'), parts[1], known=known)}"


def without_secrets(text: str) -> str:
    """A text with a word in place of whatever may be a secret, by its form or by the name before it."""
    return _cleaned(text, strict=True)


def has_secret(line: str) -> bool:
    """Whether a line of YAML or of a script holds what may be a secret."""
    return without_secrets(line) != line


def _cleaned(text: str, *, strict: bool) -> str:
    return _short_cleaned(text, strict) if len(text) <= _SHORT else _long_cleaned(text, strict)


@lru_cache(maxsize=8192)
def _short_cleaned(text: str, strict: bool) -> str:
    return _long_cleaned(text, strict)


def _long_cleaned(text: str, strict: bool) -> str:
    shown = without_digits(without_shapes(text, HIDDEN), HIDDEN)
    hidden = _hidden if strict else _hidden_by_name
    if "=" in shown or ":" in shown:
        shown = _assigned().sub(hidden, shown)
    return _option().sub(hidden, shown) if "-" in shown and " " in shown else shown


def _hidden_by_name(match: re.Match[str]) -> str:
    """What is assigned to a name, without what the name says is a secret."""
    secret = is_secret(match["name"].rpartition(".")[2], match["value"])
    return match["head"] + HIDDEN if secret and not _is_prose(match) else match[0]


def _is_prose(match: re.Match[str]) -> bool:
    """Whether a name is the word of a sentence: "expected a token: ..."."""
    before = match.string[max(0, match.start() - _LONGEST_ARTICLE) : match.start()]
    return ":" in match["head"] and _in_sentence().search(before) is not None


def _hidden(match: re.Match[str]) -> str:
    """What is assigned to a name, without what may be a secret."""
    name, last = match["name"], match["name"].rpartition(".")[2]
    bare = match["value"].strip("'\"")
    made_up = is_free(name) or ("=" in match["head"] and _shell_name().fullmatch(name))
    if _is_prose(match):
        return match[0]
    if is_secret(last, bare) or (made_up and not (decides(last) or is_harmless(bare))):
        return match["head"] + HIDDEN
    return match[0]
