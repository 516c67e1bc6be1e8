"""The guide: its numbers are computed, and its pictures are drawn from the model."""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives

import computed
import rollout_prices
import running_job
import skipping
from figures import Drawing, figure

DOCS = Path(__file__).resolve().parents[2] / "docs"
CHAPTERS = sorted((DOCS / "guide").glob("*.rst"))
FIGURES = sorted(
    path.stem for path in (DOCS / "_ext/figures").glob("*.py") if path.stem not in ("__init__", "plot")
)
# Words for what the guide's job does not have.
_ABSENT = {"step_memory": {"reward model", "freed blocks that PyTorch keeps"}, "batches": {"tokens"}}
_DATA = ("verl-0.9.1-fsdp-1xh200.json",)
_TYPED = re.compile(r"\d[\d.,]*[ \t]*(?:GiB|MiB|GB|TB|%|seconds?\b|s\b|ms\b|tokens?/s|tokens\b|times\b|×)")


def typed_numbers(text: str) -> list[str]:
    """Numbers with a unit that stand in running text, outside of what is computed, quoted or mathematics."""
    text = re.sub(r"``[^`]*``|:[\w:]+:`[^`]*`", "", text)
    text = re.sub(r"^\.\. (?:run|drawn|prices|math|code-block)::.*?(?=^\S|\Z)", "", text, flags=re.M | re.S)
    return _TYPED.findall(text)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_no_number_of_a_result_is_typed(chapter: Path) -> None:
    assert typed_numbers(chapter.read_text(encoding="utf-8")) == []


def test_a_typed_number_is_found() -> None:
    assert typed_numbers("It takes 12.5 GiB and 3 s, :now:`worst` and ``0.5 GiB``.") == ["12.5 GiB", "3 s"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_what_a_chapter_asks_for_can_be_computed(chapter: Path) -> None:
    asked = re.findall(r":now:`([^`]*)`", chapter.read_text(encoding="utf-8"))
    assert all(re.search(r"\w", computed.computed(text)) for text in asked)


def test_numbers_follow_the_job() -> None:
    offloaded = "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True"
    before, after = (running_job.phase("rollout", overrides).peak_bytes for overrides in ((), (offloaded,)))
    assert after < before
    assert computed.computed("peak rollout") != computed.computed(f"peak rollout; {offloaded}")
    with pytest.raises(ValueError, match="none of"):
        computed.computed("weather")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("asked", ["worst", "step", "kv-tokens", "batch prompts", "skipped 50"])
def test_a_job_that_does_not_start_has_no_numbers(asked: str) -> None:
    """What the advice shows instead is the least change that starts: another job."""
    with pytest.raises(ValueError, match="does not start"):
        computed.computed(f"{asked}; actor_rollout_ref.actor.ppo_mini_batch_size=2048")


@pytest.mark.parametrize(
    ("directive", "argument", "content"),
    [
        (computed.Prices, "", "refused: "),
        (rollout_prices.RolloutPrices, "", "refused: "),
        (skipping.Skipping, "25", ""),
    ],
)
def test_a_table_of_a_job_that_does_not_start_is_an_error(
    directive: type[Directive], argument: str, content: str
) -> None:
    directives.register_directive("judged", directive)
    text = f".. judged:: {argument}\n\n   {content}actor_rollout_ref.actor.ppo_mini_batch_size=2048\n"
    page = publish_doctree(text, settings_overrides={"report_level": 5})
    (message,) = page.findall(nodes.system_message)
    assert message["type"] == "ERROR" and "does not start" in message.astext()
    assert not list(page.findall(nodes.table))


@pytest.fixture(scope="module", params=FIGURES)
def drawn(request: pytest.FixtureRequest) -> tuple[str, Drawing, dict[str, str]]:
    """A figure with its words marked, as a translation would change them."""
    words = {name: f"«{text}»" for name, text in figure(request.param).WORDS.items()}
    arguments = _DATA if request.param == "accuracy_scatter" else ()
    return request.param, figure(request.param).draw(words, arguments), words


@pytest.mark.sampled(5)
def test_a_picture_is_svg_in_the_readers_language(drawn: tuple[str, Drawing, dict[str, str]]) -> None:
    name, drawing, words = drawn
    root = ElementTree.fromstring(drawing.svg)
    assert root.tag.endswith("svg") and root.get("viewBox") and root.get("width") is None
    shown = "".join(root.itertext()) + "".join(drawing.header) + "".join(map("".join, drawing.rows))
    assert {key for key, text in words.items() if text not in shown} == _ABSENT.get(name, set())
    identifiers = Counter(element.get("id") for element in root.iter() if element.get("id"))
    assert not [name for name, count in identifiers.items() if count > 1]
    assert "http" not in re.sub(r'xmlns(?::\w+)?="[^"]*"|xlink:href="#[^"]*"', "", drawing.svg)


@pytest.mark.sampled(8)
def test_a_picture_has_its_numbers_as_a_table(drawn: tuple[str, Drawing, dict[str, str]]) -> None:
    _, drawing, _ = drawn
    assert len(drawing.rows) > 1
    assert {len(row) for row in drawing.rows} == {len(drawing.header)}
    assert any(re.search(r"\d", cell) for row in drawing.rows for cell in row)
