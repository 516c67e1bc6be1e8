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


def test_a_folder_of_many_files_is_counted_and_can_be_left(tmp_path: Path) -> None:
    for number in range(30_000):
        (tmp_path / f"{number}.yaml").touch()
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "tuner", "check", str(tmp_path)])
    seen, began, interrupted = b"", time.monotonic(), False
    while time.monotonic() - began < _PATIENCE_S:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # its end
            break
        seen += piece
        if not interrupted and re.search(rb"\d+/\?", seen):
            os.kill(process, signal.SIGINT)
            interrupted = True
        if not piece:
            break
    _process, status = os.waitpid(process, 0)
    assert interrupted, seen
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"Traceback" not in seen
