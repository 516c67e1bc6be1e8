"""Processes that end with the one that started them, however that one ends.

A signal that ends a parent reaches its children only where somebody sends it to all of them. What always
reaches them is the end of a pipe that the parent holds: the system closes it, whatever the parent died of. A
thread of the child waits for that.
"""

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

#: The process that a server is started by, which cannot be handed a pipe.
_STARTER = "TUNER_STARTED_BY"
_LOOK_S = 0.1  # between two looks at whether the starter is still there
_PR_SET_PDEATHSIG = 1  # of prctl(2)
_ALONE, _GROUP = "alone", "group"
#: The tracker of multiprocessing's semaphores removes those of a process that was killed, and would warn.
_TRACKER_WARNING = "ignore:resource_tracker"


def end_with_parent(*, group: bool = False) -> None:
    """Have this process of multiprocessing end as soon as its parent has.

    Args:
        group: whether it leads a process group, which then ends with it.
    """
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    assert parent is not None
    _after(lambda: wait([parent.sentinel]), group=group)


def begin_in_pool(packed: bytes) -> None:
    """Begin a process of a pool, which ends with its parent and holds no standard output longer than that.

    Args:
        packed: a pickled function that is called then. It is unpickled here, since the parent may end while
            what it needs is imported.
    """
    end_with_parent()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    pickle.loads(packed)()


def start_silent_tracker() -> None:
    """Start the process that removes semaphores behind a pool whose parent was killed, without a word."""
    if os.name != "posix":
        return
    from multiprocessing import resource_tracker

    sys.warnoptions.append(_TRACKER_WARNING)  # which are handed on to it
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(_TRACKER_WARNING)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that are started meanwhile hear no Ctrl-C, and write no traceback: the first one ends them.

    One that comes meanwhile is heard afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def module_command(
    module: str, arguments: Sequence[str], *, group: bool = False
) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """``python -m MODULE ARGUMENTS`` as a command that ends with this process, and the files to hand to it.

    The block lasts as long as the command.

    Args:
        module: that is run, by this interpreter.
        arguments: of it.
        group: whether it is started as the leader of a group, which then ends with it.
    """
    if os.name != "posix":  # where no pipe can be handed over by its number
        yield [sys.executable, "-m", module, *arguments], ()
        return
    watched, held = os.pipe()
    try:
        watching = [__name__, str(watched), _GROUP if group else _ALONE]
        yield [sys.executable, "-m", *watching, module, *arguments], (watched,)
    finally:
        os.close(watched)
        os.close(held)


def run_module(
    module: str,
    arguments: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str],
    cwd: "Path | None" = None,
    stderr: int | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """Run ``python -m MODULE ARGUMENTS`` and take what it prints; it ends when this process does.

    Args:
        module: that is run, by this interpreter.
        arguments: of it.
        timeout_s: after which it is ended.
        env: its environment.
        cwd: its working folder; None: this process's own.
        stderr: where its standard error goes, as subprocess has it; None: into a pipe of its own.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took too long.
    """
    import subprocess

    with module_command(module, arguments) as (command, handed):
        return subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if stderr is None else stderr,
            check=False,
            timeout=timeout_s,
            pass_fds=handed,
        )


@contextmanager
def known_to_server() -> Iterator[None]:
    """Tell a server that is started meanwhile which process starts it."""
    os.environ[_STARTER] = str(os.getpid())
    try:
        yield
    finally:
        del os.environ[_STARTER]


def watch_starter() -> Callable[[], None]:
    """Have this server end with its starter until the function that is returned is called.

    A server of multiprocessing looks for the end of its starter by itself, but not while it imports. Its
    number is asked for again and again; on Linux the system ends the server, also while a library is loaded.
    """
    starter = int(os.environ.pop(_STARTER, os.getppid()))
    over = threading.Event()

    def wait() -> None:
        while os.getppid() == starter and not over.is_set():
            time.sleep(_LOOK_S)

    _end_by_system(signal.SIGKILL)
    thread = _after(wait, group=False, unless=over)

    def stop() -> None:
        over.set()
        thread.join()  # a fork of several threads may lock itself up
        _end_by_system(0)

    return stop


def end_now() -> None:
    """End this process as it is: nothing is taken apart, nobody is told."""
    os.kill(os.getpid(), signal.SIGKILL if os.name == "posix" else signal.SIGTERM)


def _end_by_system(number: int) -> None:
    """Have Linux send a signal when the parent ends; 0: none."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


def _after(
    wait: Callable[[], object], *, group: bool, unless: threading.Event | None = None
) -> threading.Thread:
    """End this process once a function has returned, in a thread that waits for that."""

    def end() -> None:
        wait()
        if unless is not None and unless.is_set():
            return
        if group:
            os.killpg(0, signal.SIGKILL)
        end_now()

    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    return thread


def _run() -> None:
    """Run the module that the command line names, until it or the process that holds the pipe has ended."""
    import runpy

    watched = int(sys.argv[1])
    _after(lambda: os.read(watched, 1), group=sys.argv[2] == _GROUP)
    sys.argv = sys.argv[3:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run()
