"""The skill for agents: a file whose commands the program takes."""

import re

import pytest
import yaml

from tests.cli.runner import run
from tests.docs.test_shown_commands import parse, words

TEXT = run("skill").out
SHOWN = sorted(set(re.findall(r"`tuner ([^`]+)`", TEXT)))


def test_it_begins_with_what_agents_choose_it_by() -> None:
    _empty, head, body = TEXT.split("---\n", 2)
    said = yaml.safe_load(head)
    assert said["name"] == "tuner"
    assert set(said) == {"name", "description"}
    assert len(said["description"]) < 1024
    assert body.startswith("\n# ")


@pytest.mark.parametrize("command", SHOWN)
def test_each_of_its_commands_is_one_of_the_program(command: str) -> None:
    parse(words(f"tuner {command}")[1:])


def test_it_shows_the_whole_loop() -> None:
    assert [command.split()[0] for command in re.findall(r"`tuner ([^`]+)`", TEXT)][:3] == ["check"] * 2 + [
        "rule"
    ]
    assert {"advise", "diff", "explain-oom", "plan"} <= {command.split()[0] for command in SHOWN}
