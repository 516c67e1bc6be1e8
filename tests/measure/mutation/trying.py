"""Runs collected tests in forks of the process that collected them, with a change in each."""

import contextlib
import json
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

PROCESSES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Outcome:
    """What a fork had to say; an error where it could not say it."""

    value: object = None
    error: str | None = None


class _Failures:
    """Notes which tests failed, and how long each took."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.skipped: set[str] = set()
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        if report.skipped:
            self.skipped.add(report.nodeid)
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def run_tests(
    items: Sequence[pytest.Item], *, until_failure: bool, before: Callable[[pytest.Item], None] | None = None
) -> _Failures:
    """Runs tests in this process.

    Args:
        items: the tests, in order.
        until_failure: whether the first that fails ends it.
        before: is told which test begins.
    """
    failures = _Failures()
    manager = items[0].config.pluginmanager
    # Whatever else listens would write into the terminal of the process that this one was forked from.
    reporter = manager.get_plugin("terminalreporter")
    manager.unregister(reporter)
    manager.register(failures)
    try:
        for item, following in zip(items, [*items[1:], None], strict=True):
            if before is not None:
                before(item)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if until_failure and failures.failed:
                break
    finally:
        manager.unregister(failures)
    return failures


def in_forks(
    tasks: Sequence[Callable[[], object]], *, timeouts_s: Sequence[float], processes: int = PROCESSES
) -> Iterator[tuple[int, Outcome]]:
    """Runs each task in a fork of its own, some at a time; the number of each with what it returned.

    Args:
        tasks: functions without arguments, whose result can be pickled.
        timeouts_s: after which a task is ended, one for each.
        processes: how many at a time.
    """
    waiting = list(enumerate(tasks))[::-1]
    running: dict[int, tuple[int, int, float, list[bytes]]] = {}  # by descriptor
    while waiting or running:
        while waiting and len(running) < processes:
            number, task = waiting.pop()
            process, descriptor = _forked(task)
            running[descriptor] = (number, process, time.monotonic() + timeouts_s[number], [])
        ready, _, _ = select.select(list(running), [], [], 1.0)
        for descriptor in list(running):
            number, process, deadline, pieces = running[descriptor]
            if descriptor in ready:
                piece = os.read(descriptor, 1 << 20)
                if piece:
                    pieces.append(piece)
                    continue
            elif time.monotonic() < deadline:
                continue
            _ended(process)
            os.close(descriptor)
            del running[descriptor]
            yield number, _outcome(pieces, late=descriptor not in ready)


def _forked(task: Callable[[], object]) -> tuple[int, int]:
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    os.close(reading)
    os.setsid()  # what the tests start ends with them
    try:
        try:
            outcome = Outcome(value=task())
        except BaseException:
            outcome = Outcome(error=traceback.format_exc())
        data = pickle.dumps(outcome)
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _ended(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)


def _outcome(pieces: list[bytes], *, late: bool) -> Outcome:
    if late:
        return Outcome(error="took too long")
    try:
        outcome = pickle.loads(b"".join(pieces))
    except (EOFError, pickle.UnpicklingError):
        return Outcome(error="the process ended")
    return outcome if isinstance(outcome, Outcome) else Outcome(error="no outcome")


def progress(**fields: object) -> None:
    """One line of JSON on standard error, past whatever captures it."""
    print(json.dumps(fields), file=sys.__stderr__, flush=True)
