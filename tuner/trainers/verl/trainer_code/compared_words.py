"""The words that a chain of comparisons knows: ``if name == "naive": ... elif ...: else: raise``."""

import ast
from collections.abc import Iterator

from msgspec import Struct

from tuner.trainers.verl.trainer_code.statements import parsed


class ComparedWords(Struct, frozen=True, kw_only=True):
    """What a value is compared with before an error is raised for any other."""

    words: tuple[str, ...]
    line: int  # of the first comparison


def compared_words(text: str, name: str) -> ComparedWords | None:
    """The words of the first chain that a function surely gets to and that ends in an error.

    Args:
        text: of a file.
        name: part of the name of the value that is compared.
    """
    tree = parsed(text) if name in text else None
    for function in ast.walk(tree) if tree is not None else ():
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                words = tuple(_words(statement, name)) if isinstance(statement, ast.If) else ()
                if words and None not in words:
                    known = tuple(word for word in words if word is not None)
                    return ComparedWords(words=known, line=statement.lineno)
    return None


def _words(chain: ast.If, name: str) -> Iterator[str | None]:
    """The word of each comparison; None among them where another test, or no error, stands in the chain."""
    yield _word(chain.test, name)
    match chain.orelse:
        case [ast.If() as further]:
            yield from _words(further, name)
        case [*_, ast.Raise()]:
            return
        case _:
            yield None


def _word(test: ast.expr, name: str) -> str | None:
    """The text that a value of a name is compared with."""
    match test:
        case ast.Compare(left=ast.Name(id=left), ops=[ast.Eq()], comparators=[ast.Constant(value=str(word))]):
            return word if name in left else None
        case ast.Compare(
            left=ast.Attribute(attr=left), ops=[ast.Eq()], comparators=[ast.Constant(value=str(word))]
        ):
            return word if name in left else None
    return None
