"""The words that a chain of comparisons knows: ``if name == "naive": ... elif name in [...]: else raise``."""

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
        name: part of the name of the value that is compared; with a dot, the end of the whole expression.
    """
    tree = parsed(text) if name.rpartition(".")[2] in text else None
    for function in ast.walk(tree) if tree is not None else ():
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                words = tuple(_words(statement, name)) if isinstance(statement, ast.If) else ()
                if words and None not in words:
                    known = tuple(word for word in words if word is not None)
                    return ComparedWords(words=known, line=statement.lineno)
    return None


def _words(chain: ast.If, name: str) -> Iterator[str | None]:
    """The words of each comparison; None among them where another test, or no error, stands in the chain."""
    yield from _words_of_test(chain.test, name)
    match chain.orelse:
        case [ast.If() as further]:
            yield from _words(further, name)
        case [*_, ast.Raise()]:
            return
        case _:
            yield None


def _words_of_test(test: ast.expr, name: str) -> Iterator[str | None]:
    """The texts that a value of a name is compared with; None where something else is asked."""
    match test:
        case ast.BoolOp(op=ast.Or()):
            for value in test.values:
                yield from _words_of_test(value, name)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[word]) if _is_named(left, name):
            yield _text(word)
        case ast.Compare(
            left=left, ops=[ast.In()], comparators=[ast.List() | ast.Set() | ast.Tuple() as several]
        ) if _is_named(left, name):
            yield from map(_text, several.elts)
        case _:
            yield None


def _is_named(value: ast.expr, name: str) -> bool:
    match value:
        case ast.Name(id=own) | ast.Attribute(attr=own) if "." not in name:
            return name in own
        case ast.Attribute() if "." in name:
            return f".{ast.unparse(value)}".endswith(f".{name}")
    return False


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
