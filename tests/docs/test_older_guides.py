"""No sentence of the older texts is left out, and each leads to the paragraph that answers it."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import older_guides
from tests.docs.small_site import build

DOCS = Path(__file__).resolve().parents[2] / "docs"
CHAPTERS = sorted((DOCS / "guide").glob("*.rst"))


def read(name: str) -> Any:
    return yaml.safe_load((DOCS / name).read_text(encoding="utf-8"))


CLAIMS, TEXTS = read(older_guides.CLAIMS), read(older_guides.TEXTS)


@pytest.mark.parametrize("letter", TEXTS)
def test_every_sentence_is_in_one_row_or_says_nothing(letter: str) -> None:
    placed = [name for claim in CLAIMS for name in claim["sentences"].split() if name[0] == letter]
    asides = [f"{letter}{number}" for numbers in TEXTS[letter]["aside"].values() for number in numbers]
    sentences = range(1, len(TEXTS[letter]["sentences"]) + 1)
    assert Counter([*placed, *asides]) == Counter(f"{letter}{number}" for number in sentences)


def test_no_row_speaks_of_another_text() -> None:
    assert {name[0] for claim in CLAIMS for name in claim["sentences"].split()} == set(TEXTS)


def test_the_claims_differ_and_have_an_outcome() -> None:
    assert len({claim["says"] for claim in CLAIMS}) == len(CLAIMS)
    assert {claim["outcome"] for claim in CLAIMS} == set(older_guides.OUTCOMES)


def test_what_answers_a_claim_is_one_paragraph_of_the_guide() -> None:
    found = Counter(
        label
        for chapter in CHAPTERS
        for label in re.findall(r"^[ *#.]*\.\. _([\w-]+):$", chapter.read_text(encoding="utf-8"), flags=re.M)
    )
    wanted = {claim["answered"] for claim in CLAIMS}
    assert {label: found[label] for label in wanted} == dict.fromkeys(wanted, 1)


CHAPTER = "Chapter\n=======\n\nOne.\n\n* .. _there:\n\n  Two.\n"
CLAIM = {
    "says": "It says.",
    "sentences": "A1",
    "outcome": "kept",
    "answered": "there",
    "holds": "It holds.",
}
TEXT = {"title": "A text", "sentences": ["First *words", "Then"], "aside": {"a list": [2]}}


def files(**claim: str) -> dict[str, str]:
    return {
        "index.rst": "Start\n=====\n\n.. toctree::\n\n   chapter\n\n.. older-guides::\n\n.. older-texts::\n",
        "chapter.rst": CHAPTER,
        older_guides.CLAIMS: yaml.safe_dump([CLAIM | claim]),
        older_guides.TEXTS: yaml.safe_dump({"A": TEXT}),
    }


def test_a_row_links_to_the_paragraph_under_the_name_of_its_chapter(tmp_path: Path) -> None:
    built = build(tmp_path, files(), extensions=("folded", "older_guides"))
    assert not built.warnings
    page = built.page("index")
    assert '<a class="reference internal" href="chapter.html#there">Chapter</a>' in page
    assert 'id="there"' in built.page("chapter")
    assert "<details" in page
    assert "First *words …" in page
    assert {"It says.", "A: A text", "a list"} <= built.messages("index")


def test_a_label_that_is_nowhere_is_told(tmp_path: Path) -> None:
    built = build(tmp_path, files(answered="nowhere"), extensions=("folded", "older_guides"))
    assert "no paragraph has the label nowhere" in built.warnings
