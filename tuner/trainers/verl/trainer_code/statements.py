"""Finds the statements of a Python file, above all those that can end a launch: assertions and raised errors.

A statement is told by the words in it and around it, since forks move lines and reword messages.
Nothing is imported or run.
"""

import ast
import re
import warnings
from collections.abc import Iterator

from msgspec import Struct

_WORD = re.compile(r"\w+")
_NO_WORDS: frozenset[str] = frozenset()


class Statement(Struct, frozen=True, kw_only=True):
    """A statement without others in it, and every word that says what it is about."""

    line: int
    words: frozenset[str]  # of itself, of the conditions around it, of class and function
    stops: bool  # it is an assertion, or raises an error


def parsed(text: str) -> ast.Module | None:
    """A file's syntax tree; None of one that is no Python of this interpreter's, or too deep to be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python thinks of a user's file is not ours to say
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def statements(tree: ast.Module) -> Iterator[Statement]:
    """All statements of a file that have no others in them."""
    yield from _below(tree.body, _NO_WORDS)


def _below(body: list[ast.stmt], around: frozenset[str]) -> Iterator[Statement]:
    for statement in body:
        bodies = [part for part in _bodies(statement) if part]
        if not bodies:
            stops = isinstance(statement, (ast.Assert, ast.Raise))
            yield Statement(line=statement.lineno, words=around | words(statement), stops=stops)
            continue
        inside = around | _condition(statement)
        for part in bodies:
            yield from _below(part, inside)


def _condition(statement: ast.AST) -> frozenset[str]:
    """The words under which a statement's body is run."""
    if isinstance(statement, (ast.If, ast.While)):
        return words(statement.test)
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return frozenset({statement.name})
    if isinstance(statement, ast.Match):
        return words(statement.subject)
    return _NO_WORDS


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def words(node: ast.AST) -> frozenset[str]:
    """The names and the words of texts below a node."""
    return frozenset(_words(node))


def _words(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.keyword) and part.arg is not None:
            yield part.arg
        elif isinstance(part, ast.Constant):
            yield from _WORD.findall(str(part.value))
