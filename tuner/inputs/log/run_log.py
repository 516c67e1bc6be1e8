"""What a run says of itself: its log, with configuration, steps and end, or the summary that wandb keeps."""

import ast
import json
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import is_there, read_bytes
from tuner.inputs.log.command import StartingCommand, last_command
from tuner.inputs.log.engine import engine_start, engine_version
from tuner.inputs.log.lines import Ends, LogLine, lines_of
from tuner.inputs.log.mapping import PrintedMapping, begins_mapping, read_mapping
from tuner.inputs.log.metrics import LARGEST, LONGEST_NAME, StepMetrics
from tuner.inputs.log.step_lines import steps_in, tells_step
from tuner.inputs.secrets import without_secrets
from tuner.inputs.tree import leaves
from tuner.language import _
from tuner.out_of_memory.printed_lines import cleaned
from tuner.out_of_memory.reading import MOST_BEFORE, MOST_BEHIND, OutOfMemory, read_out_of_memory
from tuner.units import MIB
from tuner.workload.observed_run import EngineStart

# One of which a log has in its first mebibyte, at the begin of a line or behind what a progress bar printed.
_OF_LOG = re.compile(
    rb"^(?:\x1b\[[0-9;]*m)*\([\w.<>:-]{0,80}(?: [\w.<>:-]{1,80})? ?pid=\d+"  # Ray's prefix
    rb"|(?<![\w/])step:\d{1,9} - [\w/@.-]{1,120}:"
    rb"|(?<![\w/])step:\d{1,9}[ -]{0,8}\r?\n.{0,120}?[\w@.-]{1,60}/[\w/@.-]{1,100}: ?(?:np\.\w{1,20}\()?-?\d"
    rb"|^Error executing job with overrides: \["
    rb"|^\{'\w{1,80}': \{'\w{1,80}': "  # a nested mapping as pprint writes it
    rb"|^\+{1,3} (?:\w+=\S* )*(?:\S*/)?(?:python3?|torchrun|ray|accelerate|uv) "  # set -x
    rb"|^Traceback \(most recent call last\):",
    re.MULTILINE,
)
_OVERRIDES = "Error executing job with overrides: ["
_FAILED_MAPPINGS = 20  # after which no further one is tried
_MOST_MAPPINGS = 16
_MOST_ARGUMENTS = 1000
_MOST_ERROR_CHARACTERS = 8 * 1024 * 1024  # at the end, where an error is looked for


NAME = "wandb-summary.json"
_STEP = "_step"  # which wandb counts; verl hands it its own
_MOST_BYTES = 4 * MIB


class RunLog(Struct, frozen=True, kw_only=True):
    """What a log says; a job that was started several times is taken as it was started last."""

    configuration: PrintedMapping | None  # every setting, interpolations resolved
    overrides: tuple[str, ...] = ()  # of the command line, from the message of a job that failed
    overrides_line: int | None = None
    command: str = ""  # that started the job, as it was echoed or typed, with its lines; empty where none is
    command_line: int | None = None
    engine_version: str | None = None  # of the rollout engine, where it says so
    engine: EngineStart | None = None  # what it had when it was started, where it says so
    steps: tuple[StepMetrics, ...] = ()  # the last ones
    out_of_memory: OutOfMemory | None = None
    ended_by_it: bool = False  # no step was reported behind the error
    cut_bytes: int = 0  # in the middle, which were not read
    unread: bool = False  # standard input went on


def is_log(start: bytes) -> bool:
    """Whether a text is a log of a run, by its beginning."""
    return not start.startswith(b"#!") and _OF_LOG.search(start) is not None


def read_log(source: str, ends: Ends) -> RunLog:
    """Read a log.

    Args:
        source: names it.
        ends: its text.
    """
    lines = list(lines_of(ends))
    configuration, first = _configuration(lines, source)
    command, overrides = last_command(lines[first:]), _last_overrides(lines[first:])
    error, place = _out_of_memory(lines, first)
    return RunLog(
        configuration=configuration,
        overrides=() if overrides is None else _literal(overrides.text),
        overrides_line=None if overrides is None else overrides.number,
        command="" if command is None else command.text,
        command_line=None if command is None else command.line,
        engine_version=engine_version(lines[first:]),
        engine=engine_start(lines[first:]),
        steps=_last_steps(lines, first, command if configuration is None else None),
        out_of_memory=error,
        ended_by_it=error is not None and not any(map(tells_step, lines[place:])),
        cut_bytes=ends.cut_bytes,
        unread=ends.unread,
    )


def _configuration(lines: Sequence[LogLine], source: str) -> tuple[PrintedMapping | None, int]:
    """The configuration of the last start, and the index of its first line; None and 0 where there is none.

    A program prints other mappings too. The configuration is the largest, or the last of those that are
    at least half as large.
    """
    mappings: list[tuple[int, int, PrintedMapping]] = []
    failed, behind = 0, 0
    for index, line in enumerate(lines):
        if index < behind or "{'" not in line.text or not begins_mapping(cleaned(line.text).text):
            continue
        mapping = read_mapping(lines, index, source)
        if mapping is None:
            failed += 1
            if failed > _FAILED_MAPPINGS:
                break
            continue
        behind = index + mapping.lines
        if any(isinstance(value, dict) for value in mapping.tree.values()):
            mappings.append((sum(1 for _leaf in leaves(mapping.tree)), index, mapping))
            mappings = mappings[:1] + mappings[1:][-_MOST_MAPPINGS:]
    if not mappings:
        return None, 0
    most = max(number for number, _index, _mapping in mappings)
    _leaves, index, mapping = next(one for one in reversed(mappings) if one[0] * 2 >= most)
    return mapping, index


def _last_steps(
    lines: Sequence[LogLine], first: int, command: StartingCommand | None
) -> tuple[StepMetrics, ...]:
    """The steps behind the last start; a report may have its steps above the command as well."""
    for begin in (first if command is None else first + command.index, first):
        steps = steps_in(lines[begin:])
        if steps:
            return steps
    return ()


def _last_overrides(lines: Sequence[LogLine]) -> LogLine | None:
    return next((line for line in reversed(lines) if _OVERRIDES in line.text), None)


def _literal(text: str) -> tuple[str, ...]:
    """The words of a list that Python printed; none where the line was cut."""
    written = text[text.index(_OVERRIDES) + len(_OVERRIDES) - 1 :]
    try:
        words = ast.literal_eval(written[: written.rindex("]") + 1])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    if not isinstance(words, list) or len(words) > _MOST_ARGUMENTS:
        return ()
    return tuple(word for word in words if isinstance(word, str))


def _out_of_memory(lines: Sequence[LogLine], first: int) -> tuple[OutOfMemory | None, int]:
    """The error for which the job had no memory, with its line in the log, and its index among the lines."""
    begin, characters = len(lines), 0
    while begin > first and characters < _MOST_ERROR_CHARACTERS:
        begin -= 1
        characters += len(lines[begin].text) + 1
    error = read_out_of_memory("\n".join(line.text.replace("\r", " ") for line in lines[begin:]))
    if error is None:
        return None, 0
    # Without secrets is only what is told, for to look for them takes longer than all else.
    place = begin + error.line - 1
    begin = max(begin, place - MOST_BEFORE)
    message_lines = lines[begin : place + MOST_BEHIND + 1]
    error = read_out_of_memory(
        "\n".join(without_secrets(line.text).replace("\r", " ") for line in message_lines)
    )
    if error is None:
        return None, 0
    number = lines[min(begin + error.line, len(lines)) - 1].number
    return replace(error, line=number or 0), place


def summary_beside(config: Path) -> RunLog | None:
    """The last step of the run whose configuration wandb has kept in a file; None without a summary.

    Raises:
        InputError: the summary cannot be read.

    Source: wandb 0.19, ``wandb/sdk/wandb_summary.py``: what was logged last, by the names it was logged with.
    """
    file = config.with_name(NAME)
    if not is_there(file, Path.is_file):
        return None
    try:
        content = json.loads(read_bytes(file, most=_MOST_BYTES))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError(
            _("not a JSON object"),
            location=Location(source=str(file)),
            hint=_("take it away to go by {config} alone").format(config=config.name),
        )
    values = {
        name: float(value)
        for name, value in content.items()
        if isinstance(value, int | float) and abs(value) <= LARGEST and len(name) <= LONGEST_NAME
    }
    step = values.get(_STEP, 0.0)
    steps = (StepMetrics(step=int(max(0.0, step)), values=values),) if values else ()
    return RunLog(configuration=None, steps=steps)
