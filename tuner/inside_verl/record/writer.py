"""A file of a record: lines are appended one by one, and what fails ends the record, not the run."""

import os
import socket
import threading
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from tuner import __version__
from tuner.inputs.record.form import SUFFIX, VERSION, Line, RecordProcess
from tuner.inside_verl.verl_process import running_release


class RecordWriter:
    """Appends to the file of this process; it is made, with its folder, at the first line."""

    def __init__(self, folder: Path, role: str, rank: int) -> None:
        safe = "".join(char if char.isalnum() or char in "_-" else "_" for char in role) or "worker"
        self.path = folder / f"{safe}-{rank:05d}{SUFFIX}"
        self._begun = False
        self._lock = threading.Lock()

    def write(self, line: Line) -> None:
        """Append one line.

        Raises:
            OSError: it cannot be written.
        """
        data = msgspec.json.encode(line) + b"\n"
        with self._lock:
            if not self._begun:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                data = data if _ends_a_line(self.path) else b"\n" + data
                self._begun = True
            # Opened for each of the few lines, so that none is lost with the process; written in one call, so
            # that a reader sees a part of the last line at most.
            with self.path.open("ab", buffering=0) as stream:
                stream.write(data)


def _ends_a_line(path: Path) -> bool:
    """Whether what is there ends with a whole line: a job that was killed may have left a part of one."""
    try:
        with path.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) == b"\n"
    except OSError:  # it is not there, or empty
        return True


def this_process(
    role: str, rank: int, world: int, *, gpus_per_node: int | None, card: tuple[str, int] | None
) -> RecordProcess:
    """The first line of a file: this process, and what runs in it."""
    return RecordProcess(
        version=VERSION,
        role=role,
        rank=rank,
        world=world,
        gpus_per_node=gpus_per_node,
        host=socket.gethostname()[:200],
        pid=os.getpid(),
        begun=time.time(),
        verl=running_release(),
        torch=_installed("torch"),
        tuner=__version__,
        gpu=None if card is None else card[0],
        gpu_bytes=None if card is None else card[1],
    )


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


class Guard:
    """Runs what records; the first error is said once, and nothing is recorded behind it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.broken = False
        self._say = say

    def run(self, record: Callable[[], None]) -> None:
        """Call a function unless an earlier one has failed; its error goes no further."""
        if self.broken:
            return
        try:
            record()
        except Exception as error:
            self.broken = True
            self._say(f"{type(error).__name__}: {error}")
