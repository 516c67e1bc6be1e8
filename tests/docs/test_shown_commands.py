"""Commands that pages show without output are read by the program: no option, file or module is made up.

Those with output are run while the site is built, and the README's by ``tests/test_readme.py``.
"""

import importlib.util
import re
import shlex
from collections.abc import Iterator

import pytest
import typer

from docs.tools.program import ROOT
from tuner.cli.application import application

_BLOCK = re.compile(r"^\.\. code-block:: console\n\n(?P<lines>(?:(?:   .*)?\n)+)", re.MULTILINE)
_CONTRIBUTING = re.compile(r"```console\n(?P<lines>.*?)```", re.DOTALL)


def shown() -> Iterator[str]:
    """Every command line behind a prompt, continued lines joined."""
    pages = [*ROOT.glob("docs/*.rst"), *ROOT.glob("docs/*/*.rst")]
    texts = [(_BLOCK, page.read_text(encoding="utf-8")) for page in sorted(pages)]
    texts.append((_CONTRIBUTING, (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    for block, text in texts:
        for match in block.finditer(text):
            joined = re.sub(r"\\\n\s*(?:> )?", " ", match["lines"])
            for line in re.findall(r"^\s*\$ (.+)$", joined, re.MULTILINE):
                yield from (command.strip() for command in line.split("&&"))


VERLS_PROGRAM = "verl.trainer.main_ppo"  # it is not installed with ours
SPHINX = ("sphinx-build", "sphinx-intl")
COMMANDS = sorted(set(shown()))


def words(command: str) -> list[str]:
    """A command line without variables in front, the program without its folder, numbers for ``TOKENS``."""
    command = command.partition(" > ")[0]  # what goes into a file
    parts = [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)]
    parts = ["1024" if word == "TOKENS" else word for word in parts]
    return [parts[0].rpartition("/")[2], *parts[1:]]


def parse(arguments: list[str]) -> None:
    """Read the arguments as ``tuner`` does before it does anything; raises what it would report."""
    group = typer.main.get_command(application())
    name, *rest = arguments
    with typer.Context(group, info_name="tuner") as context:
        command = group.get_command(context, name)
        assert command is not None, f"there is no tuner {name}"
        known = {
            word for parameter in command.params for word in (*parameter.opts, *parameter.secondary_opts)
        }
        unknown = [word for word in rest if word.startswith("-") and word.partition("=")[0] not in known]
        assert not unknown, f"tuner {name} has no {unknown[0]}"
        command.make_context(name, rest, parent=context).close()


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_names_exists(command: str) -> None:
    program, *arguments = words(command)
    if command.startswith(".ci/"):
        assert ROOT.joinpath(".ci", program).is_file()
        return
    if "tuner" in arguments and program == "torchrun":
        program, *arguments = arguments[arguments.index("tuner") :]
    if program == "tuner":
        parse(arguments)
    elif program in ("python", "python3") and arguments[:2] == ["-m", VERLS_PROGRAM]:
        assert "..." in arguments  # what a user has already, before what is added
    elif program in ("python", "python3") and arguments[0] == "-m":
        assert importlib.util.find_spec(arguments[1]) is not None
    elif program == "python":
        assert ROOT.joinpath(arguments[0]).is_file()
    elif program == "pytest":
        assert [path for path in arguments if not path.startswith("-") and not list(ROOT.glob(path))] == []
    else:
        assert program in (".", "pip", "git", "ruff", "mypy", "lint-imports", "sha256sum", *SPHINX)


def test_a_command_that_is_made_up_is_found() -> None:
    with pytest.raises(AssertionError, match="there is no tuner advice"):
        parse(["advice", "a.yaml"])
    with pytest.raises(AssertionError, match="tuner advise has no --gpus"):
        parse(["advise", "a.yaml", "--gpus", "h100"])
