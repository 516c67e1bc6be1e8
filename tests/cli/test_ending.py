"""How the process ends: at once, unless somebody asked before to be told of the end."""

import subprocess
import sys

import pytest

ENDED = """
import atexit, sys
import tuner.cli

class Kept:
    def __del__(self):
        print("taken apart")

def main():
    atexit.register(print, "told")
    sys.exit(3)

kept = Kept()
tuner.cli.main = main
{before}
tuner.cli.program()
"""


@pytest.mark.parametrize(
    ("before", "printed"),
    [("", ["told"]), ("atexit.register(print, 'told as well')", ["told", "told as well", "taken apart"])],
    ids=["nobody asked before", "somebody did"],
)
def test_whoever_asked_is_told(before: str, printed: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-c", ENDED.format(before=before)], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stdout.splitlines(), run.stderr) == (3, printed, "")


def test_a_traceback_is_the_code_1() -> None:
    broken = ENDED.format(before="tuner.cli.main = lambda: 1 / 0")
    run = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and "ZeroDivisionError" in run.stderr


def test_it_is_said_where_standard_output_is_closed() -> None:
    run = subprocess.run(
        ["sh", "-c", 'exec "$1" -m tuner --version >&-', "sh", sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (2, "error: standard output is closed\n")
