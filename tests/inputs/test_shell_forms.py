"""Every form of a test, a program, a loop and an expansion that scripts use, with what comes of it.

The files have a script for each and, behind ``=>``, what its calls of ``show`` get. Where bash is there it
runs all of ``shell-forms.txt``, so that no answer is only what this package gives. What stands in
``shell-unknowns.txt`` depends on variables that nobody sets and on programs: no shell can say it.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.inputs.test_shell import FUNCTION, shown

BASH = shutil.which("bash")
AT_ONCE = 20  # in a test


def forms(name: str) -> list[tuple[str, list[str]]]:
    """Each script of a file with what its calls of ``show`` get."""
    content = (Path(__file__).parents[1] / "data" / name).read_text().rstrip("\n")
    parts = (part.split("\n=> ") for part in content.split("\n\n"))
    return [(script, shows) for script, *shows in parts]


KNOWN = forms("shell-forms.txt")
UNKNOWN = forms("shell-unknowns.txt")


@pytest.mark.parametrize("start", range(0, len(KNOWN), AT_ONCE))
def test_every_form_is_followed(start: int) -> None:
    expected = dict(KNOWN[start : start + AT_ONCE])
    assert {script: shown(f"unset UNSET_IS_EMPTY_HERE\n{script}") for script in expected} == expected


@pytest.mark.parametrize("start", range(0, len(UNKNOWN), AT_ONCE))
def test_what_nobody_knows_stays_unknown_and_the_rest_is_known(start: int) -> None:
    expected = dict(UNKNOWN[start : start + AT_ONCE])
    assert {script: shown(script) for script in expected} == expected


@pytest.mark.skipif(BASH is None, reason="needs bash to compare with")
def test_the_answers_are_those_of_bash(tmp_path: Path) -> None:
    assert BASH is not None
    parts = [f"echo ==; (\n{script}\n) 2>/dev/null" for script, _ in KNOWN]
    run = subprocess.run(
        [BASH, "--norc", "-c", "\n".join([FUNCTION, *parts])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        timeout=60,
    )
    printed = [part.strip("\n").split("\n") for part in run.stdout.split("==\n")[1:]]
    assert dict(zip((script for script, _ in KNOWN), printed, strict=True)) == dict(KNOWN)
