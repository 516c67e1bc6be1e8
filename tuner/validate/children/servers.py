"""Servers that processes are forked from: what a call imports has been imported there, once.

multiprocessing's forkserver, twice: importing transformers takes longer than looking at the machine and
measuring it, so what a run begins with is not forked from the server that imports it. A server never starts
CUDA, which no fork of it could use then.
"""

import ctypes
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver, popen_forkserver, resource_tracker
from multiprocessing.context import ForkServerProcess
from multiprocessing.process import BaseProcess
from pathlib import Path

from tuner.enumeration import Enum
from tuner.lifetime import known_to_server

_FIRST = f"{__package__}.loading.begun"  # while the rest is imported, the server ends with its parent
_LAST = f"{__package__}.loading.last_import"
_ENTRY = f"{__package__}.worker.entry"  # next: it sees to it that nothing after it starts CUDA


class Server(Enum):
    """What is there before a call."""

    TORCH = "torch"
    MODELS = "torch and transformers"


@dataclass(frozen=True)
class ServedFunction:
    """A function that children call, by name: its module imports torch, which the parent must not."""

    module: str
    function: str
    server: Server = Server.TORCH  # the one that has loaded what the module imports

    @classmethod
    def in_package(
        cls, package: str, module: str, function: str, server: Server = Server.TORCH
    ) -> "ServedFunction":
        """The worker of a room, whose module is named as seen from there."""
        return cls(f"{package}.{module}", function, server)


# A name that cannot be imported is left out: the part that needs it says what is missing.
_ALWAYS: dict[Server, tuple[str, ...]] = {
    Server.TORCH: (_ENTRY,),
    Server.MODELS: (_ENTRY, "transformers.modeling_utils"),  # with torch's compiler and FSDP
}
# Not for a CPU: what runs Triton's interpreter, no model, must say so before anything imports Triton.
_ON_A_GPU: dict[Server, tuple[str, ...]] = {
    Server.TORCH: (_ENTRY, "torch._inductor.compile_fx", "tuner.kernels.ops"),
    Server.MODELS: (_ENTRY, "transformers.models.auto.modeling_auto", "torch._inductor.compile_fx"),
}
_servers: dict[Server, forkserver.ForkServer] = {}


def prepare(device: str, workers: Iterable[ServedFunction]) -> None:
    """Say what the servers have loaded when they start; for a GPU they all start now, at the same time.

    Without it every child would import all of it by itself. Servers that run stay as they are.

    Args:
        device: cuda or cpu.
        workers: that will be called; for a GPU their modules are loaded too.
    """
    ahead = device != "cpu" and _driver_is_here()  # else it is said at once that nothing can run here
    for server, names in (_ON_A_GPU if ahead else _ALWAYS).items():
        if server not in _servers:
            called = (worker.module for worker in workers if ahead and worker.server is server)
            _server(server, (*names, *called))
        if ahead:
            _start(_servers[server])


class ServedProcess(ForkServerProcess):
    """A process that is forked from one of the servers; ``server`` is set before it is started."""

    server: Server

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> popen_forkserver.Popen:  # noqa: N802
        assert isinstance(process_obj, ServedProcess)
        with _current_server(process_obj.server):
            return popen_forkserver.Popen(process_obj)


@contextmanager
def _current_server(server: Server) -> Iterator[None]:
    """The standard library knows one server; while a process starts, it is this one."""
    current = _servers.get(server) or _server(server, _ALWAYS[server])
    _start(current)
    known = forkserver.connect_to_new_process
    forkserver.connect_to_new_process = current.connect_to_new_process
    try:
        yield
    finally:
        forkserver.connect_to_new_process = known


def _server(server: Server, names: tuple[str, ...]) -> forkserver.ForkServer:
    _servers[server] = forkserver.ForkServer()
    _servers[server].set_forkserver_preload([_FIRST, *names, _LAST])
    return _servers[server]


def _start(server: forkserver.ForkServer) -> None:
    """Start it, unless it runs. Ctrl-C is for the parent: while a server imports, it would show where."""
    resource_tracker.ensure_running()  # else it is started below, and lets SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with known_to_server():
            server.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _driver_is_here() -> bool:
    """Whether a GPU's driver is installed. Asking torch would load CUDA in a process that must not."""
    with suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        return True
    return Path("/dev/kfd").exists()  # AMD's
