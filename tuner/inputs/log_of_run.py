"""The log of a run beside the configuration or the script that it was started with."""

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import STANDARD_INPUT, opened
from tuner.inputs.log.lines import read_ends
from tuner.inputs.log.run_log import RunLog, read_log
from tuner.inputs.overrides import COMMAND_LINE, parse_overrides
from tuner.inputs.secrets import shown_value
from tuner.inputs.tree import Path as KeyPath
from tuner.inputs.tree import contains, dotted, leaves, lookup, split_key
from tuner.inputs.user_input import Remark, UserInput
from tuner.inputs.yaml_file import MAX_BYTES, Document
from tuner.language import _

_MOST_NAMED = 8  # keys that a log has otherwise


def read_log_of_run(source: str) -> RunLog:
    """The log in a file or in standard input.

    Raises:
        InputError: it cannot be read, or nothing in it is of a run.
    """
    with opened(Path(source), most=MAX_BYTES + 1) as (start, stream):
        log = read_log(source, read_ends(start, stream))
    if not (log.steps or log.out_of_memory or log.configuration or log.engine or log.overrides):
        raise InputError(
            _("nothing in it is of a run"),
            location=Location(source=source),
            hint=_("--log takes what the trainer printed: its settings, the metrics of steps, or an error"),
        )
    return log


def with_log(given: UserInput, source: str) -> UserInput:
    """What was given, with the log of its run: settings that it printed are those of the job.

    Args:
        given: a configuration or a script.
        source: the log's file, or ``-``.

    Raises:
        InputError: the log cannot be read, or what was given is a log or a record itself.
    """
    if given.source == source == STANDARD_INPUT:
        raise InputError(
            _("the configuration and the log cannot both come from standard input"),
            hint=_("give one of them as a file"),
        )
    if given.log is not None:
        raise InputError(
            _(
                "{source} is itself what a run left: --log takes the log of a configuration or a script"
            ).format(source=given.source),
            hint=_("give one of them alone"),
        )
    log = read_log_of_run(source)
    if log.configuration is None:
        return replace(given, log=log, log_source=source)
    typed = tuple(argument for argument in given.arguments if argument.location.source == COMMAND_LINE)
    printed = log.configuration
    return replace(
        given,
        document=Document(source=source, tree=printed.tree, locations=printed.locations, printed=True),
        arguments=typed,
        unsettled=(),
        alternatives=(),
        not_followed=(),
        processes=None,
        log=log,
        log_source=source,
        of_log=tuple(_differences(given, log, source)),
    )


def _differences(given: UserInput, log: RunLog, source: str) -> Iterator[Remark]:
    """The settings that the log has otherwise than the script: the job that ran had these."""
    assert log.configuration is not None  # else nothing of the script is set aside
    printed = log.configuration
    place = Location(source=source, line=printed.line)
    text = _("the settings are those that the run printed, not those of {source}").format(source=given.source)
    yield Remark(text=text, location=place)
    named = 0
    for path, value, origin in _settings(given):
        if named == _MOST_NAMED or not contains(printed.tree, path) or lookup(printed.tree, path) == value:
            continue
        named += 1
        key = dotted(path)
        ran, other = (shown_value(key, one, known=True) for one in (lookup(printed.tree, path), value))
        text = _("{key}={ran} ran, where {place} has {value}").format(
            key=key, ran=ran, place=origin, value=other
        )
        yield Remark(text=text, location=printed.locations.get(path, place))


def _settings(given: UserInput) -> Iterator[tuple[KeyPath, object, Location]]:
    """What was given of itself, without what was typed behind it and without values that rest on others."""
    document = given.document
    for path, value in () if document is None else leaves(document.tree):
        if document is not None and not (isinstance(value, str) and "${" in value):
            yield path, value, document.locations.get(path, Location(source=document.source))
    script = [argument for argument in given.arguments if argument.location.source != COMMAND_LINE]
    for override in parse_overrides(script).overrides:
        if override.package is None and not (isinstance(override.value, str) and "${" in override.value):
            yield split_key(override.key), override.value, override.location
