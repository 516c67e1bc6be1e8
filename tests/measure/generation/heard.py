"""What the process of one start says, for as long as it is heard from; then it is ended, with all it started.

It writes lines to a file, which nobody has to wait for: the reader of a pipe or a queue can wait without end
for a process that is dead.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure.generation.engine import Start

from tuner.lifetime import module_command

_POLL_S = 0.2
_DYING_S = 10.0  # a killed process gives the GPU's memory back in less


def messages_of(start: Start, *, silence_s: float, end: float) -> Iterator[dict[str, Any]]:
    """Every message of a start, in a process of its own; an ``error`` where it did not come to its end.

    Args:
        start: what is started.
        silence_s: the start and each batch may take so long.
        end: the monotonic clock's time at which it is ended in any case.
    """
    with TemporaryDirectory() as folder:
        asked, said = Path(folder, "asked.json"), Path(folder, "said.jsonl")
        asked.write_text(json.dumps(asdict(start)), encoding="utf-8")
        said.touch()
        words = (str(asked), str(said))
        with module_command("measure.generation.start", words, group=True) as (command, handed):
            child = subprocess.Popen(command, pass_fds=handed, start_new_session=True)
            try:
                yield from _until_it_ends(child, said, silence_s, end)
            finally:
                _end(child)


def _until_it_ends(
    child: subprocess.Popen[bytes], said: Path, silence_s: float, end: float
) -> Iterator[dict[str, Any]]:
    heard, read = time.monotonic(), 0
    while True:
        status = child.poll()  # before the file is read: what it says last is not missed
        lines = said.read_bytes()[read:].split(b"\n")[:-1]
        for line in lines:
            read += len(line) + 1
            heard = time.monotonic()
            message = json.loads(line)
            if "done" in message:
                return
            if "ready" not in message:
                yield message
        if status is not None:
            yield {"error": f"the start's process ended with status {status}"}
            return
        if time.monotonic() > end:
            yield {"error": "the time was over"}
            return
        if time.monotonic() > heard + silence_s:
            yield {"error": f"nothing was heard for {silence_s:.0f} s"}
            return
        time.sleep(_POLL_S)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the whole session of a process, the engine too, and wait for it a while: no longer than that."""
    until = time.monotonic() + _DYING_S
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(timeout=_DYING_S)
    while time.monotonic() < until and _lives(child.pid):
        time.sleep(_POLL_S)


def _lives(group: int) -> bool:
    """Whether a process of a group holds anything still; one that nobody has waited for yet does not."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of_group = file.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[:3]
            if int(of_group) == group and state not in "ZX":
                return True
    return False
