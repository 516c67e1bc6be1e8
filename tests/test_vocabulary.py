"""The code says what things are: nouns for modules and classes, words with a meaning for functions.

The page ``docs/vocabulary.rst`` has the words.
"""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

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
#: The same of variables and parameters in the rooms of the model, the rules and the kernels.
NO_VARIABLES = re.compile(
    r"asked|away|because|beside|done|each|fixed|found|given|grounds|held|how|judged|kept|known|measured|noted"
    r"|others|proposed|recorded|resting|said|saying|seen|settled|spelled|taken|that|this|told|tried|trying|typed"
    r"|way|what|which"
)
ROOMS = ("memory", "timing", "kernels", "rules")
#: A verb and a direction among them, which say what a function does: to keep a value, to align a text.
DEEDS = {"put", "left"}
#: Properties that are published in the JSON under these names.
PUBLISHED = {
    "tuner.advise.allocation.TensorMatch.what",
    "tuner.memory.failed_allocation.tensor.Tensor.what",
    "tuner.render.comparison_report.KeyStateReport.known",
}
#: What a docstring cannot begin with: it would point at something that stands elsewhere.
OPENINGS = re.compile(r"(?:The same|One (?:that|which|of)|Those|That|Of|These|All of (?:it|them)|It)\b")


class Names(NamedTuple):
    """What a file defines, without its syntax tree: a file is read once, and the trees of all would stay."""

    classes: tuple[str, ...]
    functions: tuple[tuple[str, str], ...]  # names, and where they are
    docstrings: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]  # names, and of which function


@cache
def names_of(path: Path) -> Names:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    defining = [node for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module)]
    place = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    in_a_room = any(path.is_relative_to(PACKAGE / room) for room in ROOMS)
    return Names(
        classes=tuple(node.name for node in defining if isinstance(node, ast.ClassDef)),
        functions=tuple(functions(tree, place)),
        docstrings=tuple(filter(None, map(ast.get_docstring, defining))),
        variables=tuple(
            (name, function.name)
            for function in defining
            if in_a_room and isinstance(function, ast.FunctionDef)
            for name in variables(function)
        ),
    )


def words(name: str) -> str:
    return name.strip("_").lower()


def test_modules_are_named_by_nouns() -> None:
    assert len(FILES) > 900
    assert not [str(path) for path in FILES if NO_NAMES.fullmatch(words(path.stem))]


def test_classes_are_named_by_nouns() -> None:
    names = [name for path in FILES for name in names_of(path).classes]
    assert not [name for name in names if NO_NAMES.fullmatch(words(name))]


def functions(node: ast.AST, place: str) -> Iterator[tuple[str, str]]:
    """The functions and methods below a node: their names, and where they are."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        below = f"{place}.{child.name}" if named else place
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name, below
        yield from functions(child, below)


def test_functions_are_not_named_by_a_word_that_names_nothing() -> None:
    """But for deeds, and for what is published under such a name."""
    empty = {
        place
        for path in FILES
        for name, place in names_of(path).functions
        if NO_NAMES.fullmatch(words(name)) and words(name) not in DEEDS
    }
    assert empty == PUBLISHED


def variables(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


@pytest.mark.parametrize("room", ROOMS)
def test_variables_of_the_model_say_what_they_hold(room: str) -> None:
    empty = [
        f"{path.relative_to(ROOT)}: {name} in {function}"
        for path in FILES
        if path.is_relative_to(PACKAGE / room)
        for name, function in names_of(path).variables
        if NO_VARIABLES.fullmatch(words(name))
    ]
    assert not empty


def test_a_class_has_a_name_of_its_own() -> None:
    """But for those that only their own module knows."""
    names = Counter(name for path in FILES for name in names_of(path).classes)
    assert not [name for name, count in names.items() if count > 1 and not name.startswith("_")]


def test_a_docstring_begins_with_what_a_thing_is() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}"
        for path in FILES
        for docstring in names_of(path).docstrings
        if OPENINGS.match(docstring)
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
