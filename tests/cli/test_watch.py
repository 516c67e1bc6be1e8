"""The live view: drawn again while it runs, and ended by q or Ctrl-C with exit code 0."""

import contextlib
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.cli.runner import run
from tuner.inputs.record.form import Begin, RecordProcess
from tuner.render import live
from tuner.render.terminal import Terminal
from tuner.render.watch import Frame
from tuner.workload import Phase

PATIENCE_S = 30


@pytest.fixture
def record(tmp_path: Path) -> Path:
    process = RecordProcess(
        version=1, role="actor", rank=0, world=1, host="node", pid=1, begun=1.0, tuner="0", verl="0.9.1"
    )
    begun = Begin(step=3, phase=Phase.UPDATE_ACTOR, begun=time.time())
    lines = b"".join(msgspec.json.encode(line) + b"\n" for line in (process, begun))
    (tmp_path / "actor-00000.jsonl").write_bytes(lines)
    return tmp_path


def test_q_ends_it_and_the_screen_is_as_before(record: Path) -> None:
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        [sys.executable, "-m", "tuner", "watch", str(record), "--interval", "0.2"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm"},
    )
    os.close(theirs)
    drawn, end = b"", time.monotonic() + PATIENCE_S
    while drawn.count(b"update_actor runs on 1 rank") < 2 and time.monotonic() < end:
        drawn += os.read(ours, 4096)
    os.write(ours, b"q")
    with contextlib.suppress(OSError):  # the other end is closed
        while time.monotonic() < end:
            drawn += os.read(ours, 4096)
    assert watching.wait(timeout=PATIENCE_S) == 0
    os.close(ours)
    assert b"no prediction" in drawn
    assert drawn.rindex(b"\x1b[?1049l") > drawn.rindex(b"\x1b[?1049h")  # the screen that was there before
    assert b"Traceback" not in drawn


def test_control_c_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    def drawn() -> tuple[Frame, Terminal]:
        raise KeyboardInterrupt

    live.show(drawn, interval_s=0.2)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(("version", "code"), [(1, 0), (2, 2)])
def test_a_record_of_a_later_form_is_refused(version: int, code: int, record: Path) -> None:
    file = record / "actor-00000.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"version":1', b'"version":%d' % version))
    result = run("watch", str(record), "--once")
    assert result.code == code
    assert ("of format 2" in result.err) is (code == 2)
