"""Runs the command line, in this process where that is enough."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from tuner.cli import main
from tuner.cli.application import application
from tuner.language import using
from tuner.trainers.verl.releases import BUNDLED

ROOT = Path(__file__).parents[2]

#: For launches whose release a test does not ask about: else they are read on other releases as well.
RELEASE = ("--verl-version", BUNDLED[-1])

application()  # help is worded where commands are imported: in English, whatever a test asks for first


@dataclass(frozen=True, kw_only=True)
class Result:
    code: int
    out: str
    err: str


def run(*arguments: str, stdin: str = "") -> Result:
    out, err, entered = _stream(), _stream(), _stream(stdin)
    code: object = 0
    with (
        patch.object(sys, "argv", ["tuner", *arguments]),
        patch.object(sys, "stdin", entered),
        redirect_stdout(out),
        redirect_stderr(err),
        using(None),  # a command may choose another language, which would stay
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    return Result(code=code, out=_content(out), err=_content(err))


def _stream(text: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)


def _content(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def process(*arguments: str, env: dict[str, str] | None = None, shell: str | None = None) -> Result:
    """A process of its own; ``shell`` is what stands behind the command, such as ``| head -1``."""
    clean = {
        key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}
    }
    command: list[str] = [sys.executable, "-m", "tuner", *arguments]
    if shell is not None:
        command = ["bash", "-c", f'"$0" "$@" {shell}; exit "${{PIPESTATUS[0]}}"', *command]
    done = subprocess.run(
        command,
        capture_output=True,
        cwd=ROOT,
        env=clean | {"PYTHONPATH": str(ROOT)} | (env or {}),
        check=False,
        timeout=60,
    )
    return Result(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())
