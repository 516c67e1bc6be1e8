"""Calls in processes of their own, which end with their parent.

A call costs a fork of a server that has loaded what it imports. A child is the leader of its own process
group: what it starts ends with it.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe, set_start_method
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any

from tuner.language import _
from tuner.lifetime import end_with_parent
from tuner.validate.children.call import CallFailure, Failed, GroupRank, Setup
from tuner.validate.children.servers import ServedFunction, ServedProcess

_LEFT_BY_LAUNCHERS = ("TORCHELASTIC_", "GROUP_", "ROLE_")  # torchrun sets them for its own processes


def run(
    worker: ServedFunction,
    arguments: tuple[Any, ...],
    *,
    setup: Setup,
    timeout_s: float,
    world: int = 1,
) -> Any:
    """Call a worker in ``world`` fresh processes; the first one's result, or :class:`Failed`.

    The first failure of any of them ends all. None of them is left when this returns or raises.

    Args:
        worker: what is called.
        arguments: handed on, picklable; ``device`` is added as a keyword.
        setup: of every child.
        timeout_s: seconds from now.
        world: processes, one per GPU.
    """
    end = time.monotonic() + timeout_s
    port = _free_port()
    children: list[_Child] = []
    try:
        for rank in range(world):
            place = GroupRank(rank=rank, world=world, port=port, timeout_s=timeout_s)
            children.append(_Child.start(worker, arguments, setup, place))
        return _outcome(children, end, timeout_s)
    finally:
        for child in children:
            child.end()


@dataclass(frozen=True, kw_only=True)
class _Child:
    process: ServedProcess
    results: Connection

    @classmethod
    def start(
        cls, worker: ServedFunction, arguments: tuple[Any, ...], setup: Setup, place: GroupRank
    ) -> "_Child":
        results, sender = Pipe(duplex=False)
        process = ServedProcess(target=_serve, args=(sender, worker, arguments, setup, place))
        process.server = worker.server
        with _no_main_module(), sender:
            process.start()
        return cls(process=process, results=results)

    def receive(self) -> Any:
        """What it sent, or how it ended without a word."""
        try:
            if self.results.poll():
                return self.results.recv()
        except (EOFError, OSError):
            pass
        self.process.join()
        code = self.process.exitcode or 0
        if code >= 0:
            return Failed(
                why=CallFailure.ERROR, message=_("the process ended with exit code {code}").format(code=code)
            )
        name = signal.Signals(-code).name
        hint = _(", as where the host is out of memory") if name == "SIGKILL" else ""
        return Failed(
            why=CallFailure.KILLED,
            message=_("the process was ended by {name}{hint}").format(name=name, hint=hint),
        )

    def end(self) -> None:
        """Kill it and what it started. It waits for this, so its number is still its own."""
        pid = self.process.pid
        if pid is not None and self.process.is_alive():
            with suppress(ProcessLookupError, PermissionError):  # not yet the leader of its group
                os.killpg(pid, signal.SIGKILL)
            self.process.kill()
        self.process.join()
        self.results.close()


def _outcome(children: list[_Child], end: float, timeout_s: float) -> Any:
    received: dict[int, Any] = {}
    while len(received) < len(children):
        waiting = {rank: child for rank, child in enumerate(children) if rank not in received}
        watched = {child.results: rank for rank, child in waiting.items()}
        ready = wait(
            [*watched, *(child.process.sentinel for child in waiting.values())],
            timeout=max(0.0, end - time.monotonic()),
        )
        if not ready:
            return Failed(
                why=CallFailure.TIMEOUT,
                message=_("no result after {timeout_s:.0f} s").format(timeout_s=timeout_s),
            )
        for rank, child in waiting.items():
            if child.results in ready or child.process.sentinel in ready:
                received[rank] = child.receive()
        failures = [result for result in received.values() if isinstance(result, Failed)]
        if failures:
            # The others fail because one ran out of memory, never the other way round.
            return min(failures, key=lambda failed: failed.why is not CallFailure.OUT_OF_MEMORY)
    return received[0]


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Keep multiprocessing from running the command line's main module again in every child."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _serve(
    results: Connection, worker: ServedFunction, arguments: tuple[Any, ...], setup: Setup, place: GroupRank
) -> None:
    """In the child: call, send what came of it, wait for the end."""
    os.setsid()
    # Otherwise every lock of the child is an entry of the server's resource tracker, left when it is killed.
    set_start_method("fork", force=True)
    end_with_parent(group=True)
    _redirect_output(setup.log)
    for name in [name for name in os.environ if name.startswith(_LEFT_BY_LAUNCHERS)]:
        del os.environ[name]
    os.environ.update(place.environment())
    from tuner.validate.children.worker import entry

    outcome = entry.outcome(worker, arguments, setup, place)
    try:
        results.send(outcome)
    except Exception as error:
        message = _("the result cannot be sent: {name}: {error}").format(
            name=type(error).__name__, error=error
        )
        results.send(Failed(why=CallFailure.ERROR, message=message))
    while True:
        signal.pause()


def _redirect_output(log: Path | None) -> None:
    """Standard output is the report's, standard error the progress bars'."""
    target = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(target, stream)
    os.close(target)
