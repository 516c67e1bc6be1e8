"""What every rule looks like, whatever it says."""

import inspect
import re
from itertools import pairwise
from types import ModuleType

import pytest

from tests.rules.next_code import FOLDERS, in_use, next_code, numbers
from tuner import rules
from tuner.findings import Rule
from tuner.render import does_not_fit
from tuner.rules.retired import RETIRED
from tuner.trainers.verl import checks

HEADINGS = ["What it checks", "Why it matters", "When it does not apply", "Sources"]
MODULES = pytest.mark.parametrize("module", rules.modules(), ids=lambda module: module.RULE.name)


def test_there_are_many_rules_in_the_order_of_their_codes() -> None:
    codes = [module.RULE.code for module in rules.modules()]
    assert len(codes) > 30
    assert codes == sorted(codes)


def test_codes_and_names_are_unique_among_rules_and_checks() -> None:
    known: list[Rule] = [module.RULE for module in rules.modules()] + [rule for rule, _ in checks.RULES]
    known.append(does_not_fit.RULE)
    assert len({rule.code for rule in known}) == len(known)
    assert len({rule.name for rule in known}) == len(known)


@pytest.mark.parametrize("letters", [*FOLDERS, "CFG"])
def test_every_code_is_in_use_or_retired_and_the_next_one_is_free(letters: str) -> None:
    """A code that is missing between others was taken out and could be given out again."""
    taken = numbers(letters)
    assert taken == list(range(taken[0], taken[0] + len(taken)))
    assert next_code(letters) == f"{letters}{taken[-1] + 1:03}"


def test_what_is_retired_is_not_in_use() -> None:
    assert not {rule.code for rule in RETIRED} & in_use().keys()
    assert not {rule.name for rule in RETIRED} & set(in_use().values())
    assert {rule.instead for rule in RETIRED} <= {"", *in_use()}


@MODULES
def test_rule_is_named_like_its_file_and_lies_in_the_folder_of_its_letters(module: ModuleType) -> None:
    *_, folder, file = module.__name__.split(".")
    assert module.RULE.name == file.replace("_", "-")
    assert re.fullmatch(r"[A-Z]{3}\d{3}", module.RULE.code)
    assert folder == FOLDERS[module.RULE.code[:3]]
    assert not module.RULE.summary.endswith(".")


@MODULES
def test_page_has_the_fixed_headings(module: ModuleType) -> None:
    lines = (inspect.getdoc(module) or "").splitlines()
    underlined = [line for line, below in pairwise(lines) if set(below) == {"-"}]
    assert underlined == HEADINGS
    assert all(len(line) == len(below) for line, below in pairwise(lines) if set(below) == {"-"})
    assert not lines[0].endswith(".")
    assert lines[1] == ""


@MODULES
def test_what_rests_on_measurements_names_card_versions_and_date(module: ModuleType) -> None:
    if "Evidence.MEASURED" in inspect.getsource(module):
        sources = (inspect.getdoc(module) or "").partition("Sources")[2]
        measured = r"measured on [a-z]+ [A-Z]\w+ with verl [\d.]+ and torch [\d.]+, \d{4}-\d\d-\d\d"
        assert re.search(measured, sources)


@MODULES
def test_every_sentence_of_the_page_has_a_line_and_an_end(module: ModuleType) -> None:
    prose = [line for line in (inspect.getdoc(module) or "").splitlines()[2:] if line and set(line) != {"-"}]
    sentences = [line for line in prose if line not in HEADINGS]
    assert len(sentences) >= 4
    assert all(line.endswith((".", ":")) for line in sentences)
