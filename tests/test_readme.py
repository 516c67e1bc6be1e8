"""The README says what the program does today, in both languages."""

from pathlib import Path

import pytest

from docs.tools.program import ROOT
from docs.tools.readme_output import READMES, commands, refreshed


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_the_output_shown_is_what_the_command_prints(path: Path) -> None:
    readme = path.read_text(encoding="utf-8")
    assert refreshed(readme) == readme, "run: python -m docs.tools.readme_output"


def test_both_languages_give_the_same_two_commands() -> None:
    english, chinese = (commands(path.read_text(encoding="utf-8")) for path in READMES)
    assert english == chinese
    assert len(english) == 2


def test_continuous_integration_installs_as_the_readme_says() -> None:
    _, test_command = commands(READMES[0].read_text(encoding="utf-8"))
    install = "bin/pip install --quiet -e '.[test,docs]'"
    assert install in test_command
    # Writing bytecode beforehand changes nothing that is tested, and takes a tenth of the time.
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8").replace(" --no-compile", "")
    assert install in ci
