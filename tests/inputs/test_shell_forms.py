"""Every form of a test, a program, a loop and an expansion that scripts use, with what bash makes of it.

``shell-forms.txt`` has a script for each and, behind ``=>``, what its calls of ``show`` get. Where bash is to
be had it runs all of them, so that no answer is only what this package gives.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.inputs.test_shell import FUNCTION, shown

BASH = shutil.which("bash")
FORMS = [
    (script, [line.removeprefix("=> ") for line in answers.split("\n=> ")])
    for script, _, answers in (
        form.partition("\n=> ")
        for form in (Path(__file__).parents[1] / "data/shell-forms.txt")
        .read_text()
        .rstrip("\n")
        .split("\n\n")
    )
]


@pytest.mark.parametrize("start", range(0, len(FORMS), 20))
def test_every_form_is_followed(start: int) -> None:
    read = {script: shown(f"unset UNSET_IS_EMPTY_HERE\n{script}") for script, _ in FORMS[start : start + 20]}
    assert read == dict(FORMS[start : start + 20])


@pytest.mark.skipif(BASH is None, reason="needs bash to compare with")
def test_the_answers_are_those_of_bash(tmp_path: Path) -> None:
    assert BASH is not None
    parts = [f"echo ==; (\n{script}\n) 2>/dev/null" for script, _ in FORMS]
    run = subprocess.run(
        [BASH, "--norc", "-c", "\n".join([FUNCTION, *parts])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        timeout=60,
    )
    printed = [part.strip("\n").split("\n") for part in run.stdout.split("==\n")[1:]]
    assert dict(zip((script for script, _ in FORMS), printed, strict=True)) == dict(FORMS)
