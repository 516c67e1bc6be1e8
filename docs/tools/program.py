"""Run the program as a page shows it: from the repository's root, its output taken as a pipe would."""

import os
import shlex
import subprocess
from pathlib import Path

from tuner.lifetime import run_module

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE_S = 120.0


def run(command: str, *, columns: int) -> subprocess.CompletedProcess[str]:
    """Run ``tuner ...`` with this interpreter; standard error comes with standard output.

    It ends with this process.

    Args:
        command: the command line as shown, without a shell's features.
        columns: width that the output is laid out for.
    """
    program, *arguments = shlex.split(command)
    if program != "tuner":
        raise ValueError(f"only tuner is run, not {program!r}")
    environment = os.environ | {"COLUMNS": str(columns), "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = run_module(
        "tuner", arguments, cwd=ROOT, env=environment, stderr=subprocess.STDOUT, timeout_s=_PATIENCE_S
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode())
