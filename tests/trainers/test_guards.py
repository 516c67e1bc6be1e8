"""Where the refusals of verl's checks rest in its code: what the wheels hold beside what the checks say."""

from pathlib import Path
from types import ModuleType

import pytest

from tuner.findings import Rule
from tuner.trainers.verl.checks import RULES
from tuner.trainers.verl.checks.guards import CodeGuard, RefusedBy, guards_of
from tuner.trainers.verl.checks.guards_by_release import read
from tuner.trainers.verl.releases import BUNDLED, PREVIEWS
from tuner.trainers.verl.trainer_code.package import TrainerCode

REFUSING = [(rule, module) for rule, module in RULES if rule.refuses]
GUARDS = [(rule, guard) for rule, module in REFUSING for guard in guards_of(module)]


@pytest.mark.parametrize(("rule", "module"), REFUSING, ids=[rule.code for rule, _module in REFUSING])
def test_every_refusal_rests_on_code_or_on_what_is_no_code_of_verl(rule: Rule, module: ModuleType) -> None:
    refused_by = getattr(module, "REFUSED_BY", None)

    assert bool(guards_of(module)) != isinstance(refused_by, RefusedBy)


@pytest.mark.parametrize(
    ("rule", "guard"), GUARDS, ids=[f"{rule.code} {guard.name}" for rule, guard in GUARDS]
)
def test_found_in_the_releases_that_the_check_names(rule: Rule, guard: CodeGuard) -> None:
    named = [
        release
        for release in BUNDLED
        if release in guard.packaged
        and (release in guard.releases or PREVIEWS.get(release, release) in guard.releases)
    ]

    assert [release for release in BUNDLED if read()[release][rule.code][guard.name]] == named


def test_all_bundled_releases_were_looked_through() -> None:
    assert list(read()) == list(BUNDLED)


@pytest.fixture
def code(tmp_path: Path) -> TrainerCode:
    file = tmp_path / "verl" / "trainer" / "checks.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "class Checks:\n"
        "    def validate(self, config):\n"
        "        if config.dynamic:\n"
        "            pass\n"
        "        elif config.mini > config.train:\n"
        "            raise ValueError(f'too large: {config.mini}')\n"
        "        try:\n"
        "            assert config.sync in ['first', 'second']\n"
        "        finally:\n"
        "            config.last = getattr(config, 'quiet', None)\n"
    )
    (tmp_path / "verl" / "broken.py").write_text("def f(:\n    assert mini < train\n")
    return TrainerCode(tmp_path / "verl")


@pytest.mark.parametrize(
    ("words", "stops", "lines"),
    [
        ("mini train", True, ["verl/trainer/checks.py:6"]),
        ("Checks validate sync", True, ["verl/trainer/checks.py:8"]),
        ("too large", True, ["verl/trainer/checks.py:6"]),
        ("dynamic mini", True, ["verl/trainer/checks.py:6"]),
        ("last", True, []),
        ("last quiet", False, ["verl/trainer/checks.py:10"]),
        ("mini sync", True, []),
    ],
)
def test_a_statement_is_told_by_the_words_in_it_and_around_it(
    code: TrainerCode, words: str, stops: bool, lines: list[str]
) -> None:
    assert [str(line) for line in code.lines(words.split(), stops=stops)] == lines


def test_words_and_literals_of_all_files(code: TrainerCode) -> None:
    assert code.names("quiet") and code.names("mini") and not code.names("quie")
    assert code.has_literal("second") and not code.has_literal("third")


def test_a_file_that_is_written_anew_is_read_anew(code: TrainerCode) -> None:
    assert not code.names("novel")
    (code.root / "novel.py").write_text("novel = 1\n")

    assert TrainerCode(code.root).names("novel")
