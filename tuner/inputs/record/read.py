"""Reads a record, while the job goes on or after it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError, Location, cut
from tuner.files import is_there, read_bytes
from tuner.inputs.log.metrics import StepMetrics, last_steps
from tuner.inputs.record.form import (
    CONFIG,
    FIRST_LINE,
    FIRST_OF_ONE_FILE,
    SUFFIX,
    TRAINER,
    VERSION,
    WORKER_CONFIG,
    Begin,
    CardPeak,
    Ended,
    Line,
    OneFileLine,
    RecordedConfiguration,
    RecordedRun,
    RecordProcess,
    Step,
)
from tuner.language import _
from tuner.units import MIB

_MOST_BYTES = 256 * MIB  # of a file; a year of steps has some 50
_MOST_FILES = 100_000


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """What one worker has recorded since it was started last."""

    file: Path
    process: RecordProcess
    phases: tuple[Ended, ...] = ()
    running: Begin | None = None  # that has no end: it goes on, or the process ended in it


class RunRecord(Struct, frozen=True, kw_only=True):
    """What the processes of a job have recorded."""

    folder: Path  # or the one file that has all of it
    workers: tuple[WorkerRecord, ...] = ()  # by role and rank
    trainer: RecordProcess | None = None
    steps: tuple[StepMetrics, ...] = ()  # the last ones, as the trainer logged them
    # of a record in one file
    run: RecordedRun | None = None
    configuration: str | None = None
    cards: tuple[CardPeak, ...] = ()

    @property
    def process(self) -> RecordProcess:
        """The process that says what runs: the first worker, else the trainer."""
        process = self.workers[0].process if self.workers else self.trainer
        assert process is not None  # a record has a file
        return process

    @property
    def last_step(self) -> int | None:
        """The last step that a worker began or the trainer logged; None before the first."""
        begun = [line.step for worker in self.workers for line in worker.phases[-1:]]
        begun += [worker.running.step for worker in self.workers if worker.running is not None]
        begun += [step.step for step in self.steps[-1:]]
        return max(begun, default=None)


def is_record(folder: Path) -> bool:
    """Whether a folder holds a record."""
    return next(_files(folder), None) is not None


def is_record_file(file: Path) -> bool:
    """Whether a file is a whole record."""
    return file.suffix == SUFFIX and is_there(file, Path.is_file) and _begins(file, FIRST_OF_ONE_FILE)


def configuration_of_record(folder: Path) -> Path:
    """The configuration beside a record.

    Raises:
        InputError: there is none.
    """
    for name in (CONFIG, WORKER_CONFIG):
        if is_there(folder / name, Path.is_file):
            return folder / name
    raise InputError(
        _("the record has no {name} beside it").format(name=CONFIG),
        location=Location(source=str(folder)),
        hint=_("put the run's configuration there, or start it with {variable}").format(
            variable="VERL_USE_EXTERNAL_MODULES=tuner.inside_verl"
        ),
    )


def read_record(path: Path) -> RunRecord:
    """Read a record: all files of a folder, or the file that is one.

    A part of a last line, which is still being written, is left out.

    Raises:
        InputError: there is no record, or a line is none of it.
    """
    if is_record_file(path):
        return _in_one_file(path)
    starts = [(file, *_last_start(_lines(file, _decoder(Line)), file)) for file in sorted(_files(path))]
    if not starts:
        raise InputError(
            _("is a directory that holds no record: no {pattern} that begins with a process").format(
                pattern=f"*{SUFFIX}"
            ),
            location=Location(source=str(path)),
            hint=_("give the folder that {variable} named").format(variable="TUNER_RECORD"),
        )
    return _of_processes(path, starts)


def _in_one_file(file: Path) -> RunRecord:
    """A record whose processes stand one behind another, behind the run and its configuration."""
    run: RecordedRun | None = None
    configuration: str | None = None
    cards: list[CardPeak] = []
    processes: list[Line] = []
    for line in _lines(file, _decoder(OneFileLine)):
        if isinstance(line, RecordedRun):
            _expect_known(line, file)
            run = line
        elif isinstance(line, RecordedConfiguration):
            configuration = line.yaml
        elif isinstance(line, CardPeak):
            cards.append(line)
        else:
            processes.append(line)
    record = record_of_lines(file, processes)
    return replace(record, run=run, configuration=configuration, cards=tuple(cards))


def record_of_lines(file: Path, lines: Iterable[Line]) -> RunRecord:
    """A record from the lines of its processes, one behind another, each from its first line on.

    Raises:
        InputError: there is no process among them.
    """
    sections: dict[tuple[str, int], list[Line]] = {}
    section: list[Line] = []
    for line in lines:
        if isinstance(line, RecordProcess):
            section = sections.setdefault((line.role, line.rank), [])
        section.append(line)
    starts = [(file, *_last_start(iter(section), file)) for _key, section in sorted(sections.items())]
    if not starts:
        raise InputError(_("the record has no process"), location=Location(source=str(file)))
    return _of_processes(file, starts)


def _of_processes(path: Path, starts: Iterable[tuple[Path, RecordProcess, list[Line]]]) -> RunRecord:
    workers: list[WorkerRecord] = []
    trainer: RecordProcess | None = None
    steps: list[StepMetrics] = []
    for file, process, lines in starts:
        if process.role == TRAINER:
            trainer = process
            steps += [
                StepMetrics(step=line.step, values=line.metrics) for line in lines if isinstance(line, Step)
            ]
        else:
            workers.append(_worker_record(file, process, lines))
    return RunRecord(folder=path, workers=tuple(workers), trainer=trainer, steps=last_steps(steps))


def _worker_record(file: Path, process: RecordProcess, lines: Sequence[Line]) -> WorkerRecord:
    phases = tuple(line for line in lines if isinstance(line, Ended))
    running = lines[-1] if lines and isinstance(lines[-1], Begin) else None
    return WorkerRecord(file=file, process=process, phases=phases, running=running)


def _files(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(folder.glob(f"*{SUFFIX}"))[:_MOST_FILES]
    except OSError:
        return
    for file in names:
        if is_there(file, Path.is_file) and _begins(file):
            yield file


def _begins(file: Path, line: bytes = FIRST_LINE) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(len(line)) == line
    except OSError:
        return False


def _last_start(lines: Iterator[Line], file: Path) -> tuple[RecordProcess, list[Line]]:
    """The last first line of a file, and the lines behind it."""
    process: RecordProcess | None = None
    behind: list[Line] = []
    for line in lines:
        if isinstance(line, RecordProcess):
            _expect_known(line, file)
            process, behind = line, []
        else:
            behind.append(line)
    if process is None:
        raise InputError(
            _("the file has no whole line yet"),
            location=Location(source=str(file)),
            hint=_("wait for the job"),
        )
    return process, behind


def _expect_known(line: RecordProcess | RecordedRun, file: Path) -> None:
    if line.version > VERSION:
        raise InputError(
            _("the record is of format {version}; this tuner reads up to {known}").format(
                version=line.version, known=VERSION
            ),
            location=Location(source=str(file)),
            hint=_("read it with tuner {version}").format(version=line.tuner),
        )


def _lines(file: Path, decoder: "msgspec.json.Decoder[Any]") -> Iterator[Any]:
    *whole, _part = read_bytes(file, most=_MOST_BYTES).split(b"\n")
    for number, line in enumerate(whole, start=1):
        if not line.strip():
            continue
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            if number > 1 and _is_cut(whole, number):
                continue
            raise InputError(
                _("is no line of a record: {reason}").format(reason=cut(str(error))),
                location=Location(source=str(file), line=number),
                hint=_("take the line away, or the file"),
            ) from None


def _is_cut(lines: Sequence[bytes], number: int) -> bool:
    """Whether a line is what a process left that was killed while it wrote: a start comes behind it."""
    behind = next((line for line in lines[number:] if line.strip()), b"")
    return behind.startswith(FIRST_LINE)


@lru_cache(maxsize=2)
def _decoder(kinds: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(kinds)
