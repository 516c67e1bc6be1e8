"""The package is installed by a name of its own: an index has another project by that of the command."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tuner.extras import DISTRIBUTION

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMAND = "tuner"

_INSTALLER = re.compile(
    r"\b(?:pip3?|pipx|uvx?|poetry|pdm|rye|conda|mamba)\s+(?:(?:pip|tool)\s+)?"
    r"(?:install|add|run|download|inject|wheel)\b(?P<words>[^\n|&;]*)"
)
_BARE = rf"{COMMAND}(?:\[[\w,{{}}. -]*\])?(?:(?:[=~<>!]=?|@).*)?"
_WORD = re.compile(rf"""["'`(]*{_BARE}["'`),.:]*""")
_REQUIREMENT = re.compile(
    rf"(?<![\w./@-]){COMMAND}(?:\[(?:{'|'.join(PROJECT['optional-dependencies'])})\]|[=~<>]=)"
)


def installs(line: str) -> bool:
    """Whether a line installs something by the bare name of the command, or asks for it as a requirement."""
    words = (word for match in _INSTALLER.finditer(line) for word in match["words"].split())
    return any(_WORD.fullmatch(word) for word in words) or _REQUIREMENT.search(line) is not None


def tracked() -> list[Path]:
    """The files of the repository; those of a source distribution, where there is none."""
    if not (ROOT / ".git").exists():
        return [path for path in ROOT.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in names.decode().split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize(
    "words",
    [
        "pip install {}",
        "  $ .venv/bin/pip install --quiet '{}[gpu]'",
        'python -m pip install "{}[trace]==0.2.0"',
        "uv tool install {}",
        "uv pip install -U {}>=0.2",
        "`pipx run {}`, once",
        'package="{}==$VERSION"',
        "needs the extra: {}[gpu]",
        "pip install {}@git+https://example.org/somebody",
    ],
)
def test_an_installation_by_the_bare_name_is_seen(words: str) -> None:
    assert installs(words.format(COMMAND))
    assert not installs(words.format(DISTRIBUTION))


@pytest.mark.parametrize(
    "words",
    [
        "pip install . && {} advise config.yaml",
        "pip install PATH_OF_TUNER; {} check",
        "pip install '.[gpu]', in a copy of {}'s repository",
        "uses: OWNER/{}@REVISION",
        "from {} import extras",
    ],
)
def test_what_installs_something_else_is_left_alone(words: str) -> None:
    assert not installs(words.format(COMMAND))


def test_nothing_is_installed_by_the_bare_name() -> None:
    found = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines() if COMMAND in text else (), start=1):
            if COMMAND in line and installs(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line}")
    assert found == []


def test_all_that_names_the_package_says_the_same() -> None:
    name = PROJECT["name"]
    assert name == DISTRIBUTION != COMMAND
    assert list(PROJECT["scripts"]) == [COMMAND]
    file = re.sub(r"[-_.]+", "_", name)  # as a wheel is called
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert set(re.findall(r"dist/?\"?/(\w+)-\*", ci)) == {file}
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")):
        assert hook["entry"].split()[0] == COMMAND
        assert (
            "additional_dependencies" not in hook
        )  # it is installed from its own checkout, with what that asks for
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert re.findall(r"pip\" install.*", action) == [
        'pip" install --quiet --disable-pip-version-check "$SOURCES"'
    ]
