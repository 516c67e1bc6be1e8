"""What this process records: one phase after another, each with its time, its batch and its memory."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tuner.inputs.record.form import Begin, Ended
from tuner.inside_verl.record.batch import BatchShare, size_of
from tuner.inside_verl.record.meter import CardReading, CudaMeter
from tuner.inside_verl.record.worker import VerlWorker, gpus_of_node
from tuner.inside_verl.record.writer import Guard, RecordWriter, this_process
from tuner.workload.step import Phase

_REPEATED = (Phase.ROLLOUT, Phase.UPDATE_WEIGHTS)  # in one step, where a recipe generates until it has enough
_ENDING = (Phase.UPDATE_ACTOR, Phase.TRAIN)


class StepNumbers:
    """Counts the steps of one process, from 1 or from what the trainer tells.

    A step ends with the actor's update and what follows it; where there is none, as in the process of a
    critic or of a reference, a phase that comes again begins the next.
    """

    def __init__(self) -> None:
        self.step = 1
        self._done: set[Phase] = set()
        self._updated = False

    def of(self, phase: Phase, told: int | None) -> int:
        """The step of a phase that begins.

        Args:
            phase: which.
            told: the step that the call itself names; None where it names none.
        """
        # Where new weights are handed over without a word of the step, that is how the next one begins.
        behind = phase is Phase.SAVE_CHECKPOINT or (phase is Phase.UPDATE_WEIGHTS and told is not None)
        again = phase in self._done and phase not in _REPEATED
        if not behind and (self._updated or again):
            self._next(self.step + 1)
        if told is not None and told != self.step:
            self._next(told)
        self._done.add(phase)
        if phase is Phase.UPDATE_WEIGHTS and told is not None:
            self._updated = True  # whatever comes behind the weights of a step is of the next
        return self.step

    def ended(self, phase: Phase) -> None:
        """Say that a phase is through."""
        self._updated = self._updated or phase in _ENDING

    def _next(self, step: int) -> None:
        self.step, self._done, self._updated = step, set(), False


class _Open(Struct, kw_only=True):
    """A phase that runs."""

    step: int
    phase: Phase
    begun: float  # seconds since 1970
    counter: float  # seconds of a clock that never goes back
    card: int | None
    size: BatchShare
    spans: bool = False  # between two calls; the next phase ends it


class Recorder:
    """Records the phases of one process.

    A phase within another is a part of it, and has no line of its own.

    Args:
        folder: of the record.
        meter: makes the memory counters of the card, when the first phase begins.
        say: one line into the log.
        opened: told of the worker and of every step that its first phase opens.
    """

    def __init__(
        self,
        folder: Path,
        *,
        meter: Callable[[], CudaMeter | None],
        say: Callable[[str], None],
        opened: Callable[[VerlWorker, int], None],
    ) -> None:
        self.folder = folder
        self.guard = Guard(say)
        self.steps = StepNumbers()
        self._make_meter, self._opened = meter, opened
        self._meter: CudaMeter | None = None
        self._writer: RecordWriter | None = None
        self._now: _Open | None = None
        self._last_step: int | None = None
        self._lock = threading.RLock()

    def begin(
        self, phase: Phase, worker: VerlWorker, data: Any, *, told: int | None, spans: bool = False
    ) -> bool:
        """Begin a phase; False where it is a part of one that runs, which then takes its batch's size.

        Args:
            phase: which.
            worker: that runs it.
            data: its batch, None without one.
            told: the step that the call names.
            spans: it has no call of its own: it ends where another begins.
        """
        with self._lock:
            if self._now is not None and self._now.spans:
                self.end(None)
            if self._now is not None:
                self.measure(data)
                return False
            if self._writer is None:
                self._start(worker)
            step = self.steps.of(phase, told)
            if self._meter is not None:
                self._meter.begin()
            card = None if self._meter is None else self._meter.card()
            clock = time.time()
            self._write(Begin(step=step, phase=phase, begun=clock))
            self._now = _Open(
                step=step,
                phase=phase,
                begun=clock,
                counter=time.perf_counter(),
                card=card,
                size=size_of(data),
                spans=spans,
            )
            if step != self._last_step:
                self._last_step = step
                self._opened(worker, step)
            return True

    def measure(self, data: Any) -> None:
        """Take the size of a batch that the running phase hands on, where its own said nothing."""
        if self._now is not None and self._now.size.tokens is None:
            self._now.size = size_of(data)

    def end(self, failed: BaseException | None) -> None:
        """End the phase that runs; nothing where none does."""
        with self._lock:
            now, self._now = self._now, None
            if now is None:
                return
            reading = None if self._meter is None or failed is not None else self._meter.read()
            line = Ended(
                step=now.step,
                phase=now.phase,
                begun=now.begun,
                seconds=time.perf_counter() - now.counter,
                sequences=now.size.sequences,
                tokens=now.size.tokens,
                response_tokens=now.size.response_tokens,
                failed=None if failed is None else type(failed).__name__[:200],
            )
            self._write(line if reading is None else _with_memory(line, reading, now.card))
            if failed is None:
                self.steps.ended(now.phase)

    def running(self, phase: Phase) -> bool:
        """Whether this phase runs."""
        return self._now is not None and self._now.phase is phase

    def _start(self, worker: VerlWorker) -> None:
        self._meter = self._make_meter()
        self._writer = RecordWriter(self.folder, worker.role, worker.rank)
        self._write(
            this_process(
                worker.role,
                worker.rank,
                worker.world,
                gpus_per_node=gpus_of_node(),
                card=None if self._meter is None else self._meter.name_and_size(),
            )
        )

    def _write(self, line: Any) -> None:
        assert self._writer is not None  # a file begins before its lines
        self._writer.write(line)


def _with_memory(line: Ended, reading: CardReading, card: int | None) -> Ended:
    return replace(
        line,
        allocated_bytes=reading.allocated,
        reserved_bytes=reading.reserved,
        process_bytes=reading.process,
        card_bytes=max(reading.card, card or 0),
    )
