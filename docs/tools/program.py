"""Run the program as a page shows it: from the repository's root, its output taken as a pipe would."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(command: str, *, columns: int) -> subprocess.CompletedProcess[str]:
    """Run ``tuner ...`` with this interpreter; standard error comes with standard output.

    Args:
        command: the command line as shown, without a shell's features.
        columns: width that the output is laid out for.
    """
    program, *arguments = shlex.split(command)
    if program != "tuner":
        raise ValueError(f"only tuner is run, not {program!r}")
    environment = os.environ | {"COLUMNS": str(columns), "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-m", "tuner", *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
