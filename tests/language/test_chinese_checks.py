"""What the checks of settings say in Chinese: their examples, and no English sentence among them."""

import pytest

from tests.language.test_chinese_output import english
from tests.tables import check_findings, scene, table
from tuner.catalogues import catalogue
from tuner.language import _, using
from tuner.trainers.verl import checks
from tuner.trainers.verl.coverage.no_effect import NO_EFFECT
from tuner.trainers.verl.coverage.tables import NOT_MODELLED


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", sorted(rule.name for rule, _module in checks.RULES))
def test_a_check_says_nothing_in_english(name: str) -> None:
    example = table(name)
    with using(catalogue("zh", source="--lang")):
        findings = [it for it in check_findings(scene(example.bad_base, example.bad)) if it.rule.name == name]
        said = [text for it in findings for text in (it.message, _(it.rule.summary), *it.notes)]
    assert len(said) > 1
    assert [text for text in said if not _chinese(text)] == []


def test_what_is_not_counted_is_said_in_chinese() -> None:
    with using(catalogue("zh", source="--lang")):
        left_out = [text for row in NOT_MODELLED for text in (row.title, _(row.reason))]
        without_effect = [_(text) for row in NO_EFFECT for text in (row.name, row.reason)]
    said = [*left_out, *without_effect]
    assert len(said) > 100
    assert [text for text in said if text != "Megatron-FSDP" and not _chinese(text)] == []


def _chinese(text: str) -> bool:
    """Whether it is; the words that a key takes may stand in a list."""
    return any("\u4e00" <= sign <= "\u9fff" for sign in text) and not any(map(english, text.split(",")))
