"""The code says what things are: nouns for modules and classes, one meaning for each name.

The page ``docs/vocabulary.rst`` has the words.
"""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tuner"
FILES = sorted(PACKAGE.rglob("*.py"))
PAGE = ROOT / "docs/vocabulary.rst"

#: Participles, pronouns and adverbs, which leave open what a thing is.
NO_NAMES = re.compile(
    r"asked|away|because|beside|blamed|checked|deciding|done|each|found|given|grounds|held|how|judged|kept|known"
    r"|left|measured|fixed|fixing|mentioned|noted|observed|one|others?|own|printed|proposed|proposing|put"
    r"|recorded|resting|said|saying|seen|settled|spelled|taken|that|this|told|tried|trying|typed|way|what|which"
    r"|whole"
)
#: What a docstring cannot begin with: it would point at something that stands elsewhere.
OPENINGS = re.compile(r"(?:The same|One (?:that|which|of)|Those|That|Of|These|All of (?:it|them)|It)\b")


def definitions(path: Path) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.Module]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module):
            yield node


def words(name: str) -> str:
    return name.strip("_").lower()


def test_modules_are_named_by_nouns() -> None:
    assert len(FILES) > 900
    assert not [str(path) for path in FILES if NO_NAMES.fullmatch(words(path.stem))]


def test_classes_are_named_by_nouns() -> None:
    names = [node.name for path in FILES for node in definitions(path) if isinstance(node, ast.ClassDef)]
    assert not [name for name in names if NO_NAMES.fullmatch(words(name))]


def test_a_class_has_a_name_of_its_own() -> None:
    """But for those that only their own module knows."""
    names = Counter(
        node.name for path in FILES for node in definitions(path) if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in names.items() if count > 1 and not name.startswith("_")]


def test_a_docstring_begins_with_what_a_thing_is() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}"
        for path in FILES
        for node in definitions(path)
        if (docstring := ast.get_docstring(node)) and OPENINGS.match(docstring)
    ]
    assert not found


def rows() -> list[tuple[str, str]]:
    """The classes and modules that the page names beside its words."""
    return [(match[1], match[2]) for match in re.finditer(r"``(tuner(?:\.\w+)+?)(?:\.([A-Z]\w+))?``", text())]


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("module", "name"), rows())
def test_what_the_page_names_is_there(module: str, name: str | None) -> None:
    found = importlib.import_module(module)
    assert name is None or hasattr(found, name)
