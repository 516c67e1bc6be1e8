"""Who waits on a terminal for a folder of many files sees how many, and Ctrl-C ends it at once."""

import os
import pty
import re
import signal
import sys
import time
from pathlib import Path

from tests.cli.runner import ROOT

_PATIENCE_S = 60.0
_AT_ITS_END = b"0 files checked"  # what it says where nobody ends it: the signal came too late
_TRIES = 5


def _interrupted(folder: Path) -> tuple[int, bytes]:
    """The exit code of a check that gets Ctrl-C as soon as it counts, and what it wrote on its terminal."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell in the background has it ignored
        os.execv(sys.executable, [sys.executable, "-m", "tuner", "check", str(folder)])
    seen, began, sent = b"", time.monotonic(), False
    while time.monotonic() - began < _PATIENCE_S:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # its end
            break
        seen += piece
        if not sent and re.search(rb"\d+/\?", seen):
            os.kill(process, signal.SIGINT)
            sent = True
        if not piece:
            break
    _process, status = os.waitpid(process, 0)
    os.close(terminal)
    assert sent, seen
    return os.waitstatus_to_exitcode(status), seen


def test_a_folder_of_many_files_is_counted_and_can_be_left(tmp_path: Path) -> None:
    for number in range(30_000):
        (tmp_path / f"{number}.yaml").touch()
    for _try in range(_TRIES):
        code, seen = _interrupted(tmp_path)
        if _AT_ITS_END not in seen:
            break
    assert code == 130, seen
    assert b"Traceback" not in seen
