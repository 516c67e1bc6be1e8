"""Reads command-line overrides with Hydra's own grammar."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.errors import InputError, Location, SweepError
from tuner.inputs.convert import has_too_large
from tuner.inputs.secrets import has_secret, shown_override, taken_override
from tuner.inputs.tree import shown
from tuner.language import N_, _

COMMAND_LINE = N_("command line")
PROPOSED = "proposal"  # where overrides stand that nobody typed; no place that is shown

CONFIG_NAME = ("--config-name", "-cn")
_CONFIG_PATH = ("--config-path", "-cp")
_CONFIG_DIR = ("--config-dir", "-cd")
_MULTIRUN = ("-m", "--multirun")
_FLAGS = frozenset({*_MULTIRUN, "-r", "--run"})  # how often it runs; a sweep is told by its values
CONFIG_OPTIONS = CONFIG_NAME + _CONFIG_PATH + _CONFIG_DIR  # the word behind them is their value
_MAX_DEPTH = 64  # sections in one key
_QUOTED_CHARACTERS = 60
_MOST_CHARACTERS = 10_000  # of an override that Hydra's own parser reads, at up to 200 us each
_BRACKET_OR_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\[{()}\]]""", re.DOTALL)


class OverrideKind(Enum):
    """What an override does; the values are Hydra's prefixes."""

    CHANGE = ""
    ADD = "+"
    FORCE_ADD = "++"
    DELETE = "~"


class Argument(Struct, frozen=True, kw_only=True):
    """One word that a Hydra program gets, and where it was written."""

    text: str
    location: Location


class Override(Struct, frozen=True, kw_only=True):
    """One argument that changes a configuration."""

    key: str  # a dotted key, or the name of a config group
    package: str | None  # what stands after '@' in a group override
    kind: OverrideKind
    value: Any  # None for a deletion without a value
    text: str  # as typed
    location: Location  # on a command line the line is the argument's number
    extends: bool = False  # a field that is a mapping takes new keys, as OmegaConf's own list of them does


class Arguments(Struct, frozen=True, kw_only=True):
    """All overrides in order, and Hydra's own options among them."""

    overrides: tuple[Override, ...]
    config_name: str | None  # of --config-name


def on_command_line(words: Sequence[str], source: str = COMMAND_LINE) -> list[Argument]:
    """Words that were typed, or are proposed, without their secrets: the line of each is its number."""
    return [
        Argument(text=taken_override(word), location=Location(source=source, line=number, column=1))
        for number, word in enumerate(words, start=1)
    ]


def parse_overrides(arguments: Sequence[Argument]) -> Arguments:
    """Parse arguments as a Hydra program would get them.

    A leading ``--`` is skipped, ``--config-path`` is passed over, and so is everything that configures
    Hydra itself (``hydra.run.dir=...``, ``hydra/launcher=...``).

    Raises:
        InputError: an argument is not an override, or sweeps over several values of which no later one
            names one.
    """
    texts, config_name = _without_options(arguments)
    overrides = _without_settled_sweeps(texts, arguments)
    return Arguments(
        overrides=tuple(item for item in overrides if not re.match(r"hydra(?:[./]|$)", item.key)),
        config_name=config_name,
    )


def option_value(arguments: Iterable[Argument], option: str) -> Argument | None:
    """The value of ``config_name``, ``config_path`` or ``config_dir``; None without that option.

    Of one that is given twice the last counts, as for Hydra's parser.
    """
    names = {"config_name": CONFIG_NAME, "config_path": _CONFIG_PATH, "config_dir": _CONFIG_DIR}[option]
    given: Argument | None = None
    following = iter(arguments)
    for argument in following:
        name, equals, value = argument.text.partition("=")
        if name in names:
            given = Argument(text=value, location=argument.location) if equals else next(following, None)
    return given


def _without_options(arguments: Iterable[Argument]) -> tuple[list[Argument], str | None]:
    """The overrides, and the value of ``--config-name``."""
    texts: list[Argument] = []
    config_name: str | None = None
    following = iter(arguments)
    for argument in following:
        option, equals, value = argument.text.partition("=")
        if option in CONFIG_OPTIONS:
            if not equals:
                behind = next(following, None)
                value = behind.text if behind is not None else ""
            if option in CONFIG_NAME:
                config_name = value
        elif (argument.text == "--" and not texts) or argument.text in _FLAGS:
            continue
        elif argument.text.startswith("-"):
            hint = _("overrides look like key=value, +key=value, ++key=value or ~key")
            raise InputError(
                _("{shown} is not an override").format(shown=_shown(argument.text)),
                location=argument.location,
                hint=hint,
            )
        else:
            texts.append(argument)
    return texts, config_name


def _without_settled_sweeps(texts: Sequence[Argument], arguments: Sequence[Argument]) -> list[Override]:
    """The overrides, without sweeps of which a later override names one job.

    Raises:
        InputError: a sweep is left.
    """
    overrides: list[Override] = []
    sweeps: list[SweepError] = []
    for argument in texts:
        try:
            override = _read(argument)
        except SweepError as sweep:
            sweeps.append(sweep)
            continue
        overrides.append(override)
        sweeps = [sweep for sweep in sweeps if sweep.key != override.key]
    if sweeps:
        from tuner.inputs.sweeps import unsettled  # which is seldom

        raise unsettled(sweeps, multirun=any(argument.text in _MULTIRUN for argument in arguments))
    return overrides


def _read(argument: Argument) -> Override:
    from tuner.inputs.plain_overrides import read_plain  # its patterns take a millisecond to compile

    plain = read_plain(argument.text)
    if plain is None:
        if len(argument.text) > _MOST_CHARACTERS:
            raise InputError(
                _("{shown} is longer than the limit of {most:,} characters").format(
                    shown=_shown(argument.text), most=_MOST_CHARACTERS
                ),
                location=argument.location,
            )
        if _depth(argument.text) > _MAX_DEPTH:
            raise _too_deep(argument.text, argument.location)
        return _parse(argument)
    if has_too_large(plain.value):
        raise _too_large(argument)
    return Override(
        key=plain.key,
        package=None,
        kind=OverrideKind(plain.prefix),
        value=plain.value,
        text=argument.text,
        location=argument.location,
    )


def _depth(text: str) -> int:
    """How many brackets are open at once, on which the parser takes longer than on anything else."""
    depth = deepest = 0
    for token in _BRACKET_OR_QUOTED.finditer(text):
        if token[0] in "[{(":
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in "]})":
            depth -= 1
    return deepest


@cache
def _parser() -> Any:
    # Importing it and its first few overrides take 150 ms, a third of a run that needs it.
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create()


def _parse(argument: Argument) -> Override:
    text, place = argument.text, argument.location
    parser = _parser()
    from hydra.errors import HydraException

    try:
        parsed = parser.parse_rule(text, "override")
        _check(parsed, text, place)
        value = _plain(parsed.value())
    except HydraException as error:
        column = _column(error, text)
        message = _("{shown} is not an override that Hydra can read: {reason}").format(
            shown=_shown(text), reason=_reason(text, column)
        )
        raise InputError(message, location=_within(place, column), hint=_hint(text, column)) from None
    except RecursionError:
        raise _too_deep(text, place) from None
    except ValueError:  # of Python, which converts no more than 4,300 digits
        raise _too_large(argument) from None
    if has_too_large(value):
        raise _too_large(argument)
    return Override(
        key=parsed.key_or_group,
        package=parsed.package,
        kind=_kind(parsed),
        value=value,
        text=text,
        location=place,
    )


def _too_large(argument: Argument) -> InputError:
    return InputError(
        _("{shown} holds a larger number than any setting takes").format(shown=_shown(argument.text)),
        location=argument.location,
    )


def _within(place: Location, column: int) -> Location:
    """A column of an argument: on a command line its own, in a file the argument's, which may be quoted."""
    if place.source != COMMAND_LINE:
        return place
    return Location(source=place.source, line=place.line, column=column)


def _check(parsed: Any, text: str, place: Location) -> None:
    """Refuse what Hydra's grammar allows and one configuration cannot hold."""
    key = parsed.key_or_group
    if not key:
        raise InputError(
            _("{shown} has no key").format(shown=_shown(text)), location=place, hint=_("write key=value")
        )
    if parsed.is_sweep_override():
        from tuner.inputs.sweeps import sweep_of  # which is seldom

        raise sweep_of(parsed, text, place)
    if key.count(".") >= _MAX_DEPTH:
        raise _too_deep(text, place)


def _too_deep(text: str, place: Location) -> InputError:
    return InputError(
        _("{shown} is nested too deeply").format(shown=_shown(text)),
        location=place,
        hint=_("give a shorter key or value"),
    )


def _kind(parsed: Any) -> OverrideKind:
    if parsed.is_delete():
        return OverrideKind.DELETE
    if parsed.is_force_add():
        return OverrideKind.FORCE_ADD
    return OverrideKind.ADD if parsed.is_add() else OverrideKind.CHANGE


def _plain(value: Any) -> Any:
    """A value of Hydra's parser as YAML would give it: mappings have text keys."""
    if isinstance(value, dict):
        return {str(key): _plain(child) for key, child in value.items()}
    return [_plain(child) for child in value] if isinstance(value, list) else value


def _column(error: Exception, text: str) -> int:
    """The column in the argument where the parser stopped, 1-based."""
    cause = error.__cause__
    start = getattr(cause, "startIndex", None)
    if isinstance(start, int):
        return start + 1
    token = getattr(cause, "offendingToken", None)
    if token is not None:
        return min(int(token.column), len(text)) + 1
    quoted = re.search(r"input '(.+?)' expecting", str(error))
    position = text.rfind(quoted[1]) if quoted else -1
    return (position if position >= 0 else len(text)) + 1


def _shown(text: str) -> str:
    """A word as a message repeats it: of an added key nobody knows whether its value is a secret."""
    return shown(shown_override(text, known=not text.startswith("+")))


def _reason(text: str, column: int) -> str:
    if shown_override(text, known=not text.startswith("+")) != text:
        return _("it may hold a secret, and is not shown")
    if "=" not in text and not text.startswith("~"):
        return _("it has no '='")
    return (
        _("it stops at {text!r}").format(text=text[column - 1 :][:20])
        if column <= len(text)
        else _("it ends too early")
    )


def _hint(text: str, column: int) -> str:
    key, equals, value = shown_override(text, known=not text.startswith("+")).partition("=")
    if not equals or column <= len(key) + 1:
        return _("write key=value")
    if column > len(text) and value.endswith(","):
        return _(
            "a shell ends the word at the space behind the comma: leave it out, or quote the whole override"
        )
    if column > len(text):
        return _("close the brackets and quotes that are open")
    if has_secret(text):
        return _("write key=value")  # what stands before the sign may be a part of it
    return _("quote the value, for the shell too: {quoted}").format(quoted=_quoted(key, value))


def _quoted(key: str, value: str) -> str:
    return f"\"{key}='{value}'\"" if len(value) <= _QUOTED_CHARACTERS else f"\"{key}='...'\""
