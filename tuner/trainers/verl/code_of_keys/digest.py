"""A digest of what a function does: another one where a statement differs that does something.

Docstrings, comments, formatting, types and what is printed or logged are left out. The digest is the same in
every version of Python that runs this, so that one file of digests serves all.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256

_LENGTH = 8
_NOT_DONE = frozenset(
    {"annotation", "returns", "type_comment", "type_params", "kind", "ctx", "decorator_list"}
)
_TOLD = frozenset({"print", "log_gpu_memory_usage", "log_with_rank", "log_print", "print_rank_0"})
_MODELS = frozenset({"actor_module", "critic_module"})  # the attributes that hold the model
FORWARDS = frozenset({"_forward_micro_batch", "forward_step"})
_PASSES = _MODELS | FORWARDS
PASS = "pass-"  # how words begin that number the passes in a row
_WIDE = re.compile(r"logits|hidden_state|softmax|top_?k\b|kl_div|vocab", re.IGNORECASE)
_TELLERS = frozenset({"logger", "logging", "warnings"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(body: Iterable[ast.AST], owner: str = "") -> Iterator[tuple[str, Function]]:
    """The functions of a module and of the classes in it, by their names with the class before them."""
    for node in body:
        if isinstance(node, Function):
            yield f"{owner}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from functions(ast.iter_child_nodes(node), owner)


def digest(function: Function) -> str:
    """The digest of one function."""
    text = " ".join(_parts(function))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def words(function: Function) -> frozenset[str]:
    """What a function reads: names, attributes and texts, not what it sets or hands a value on as."""
    return frozenset(_words(function))


def sizes(function: Function) -> frozenset[str]:
    """What tells the size of what it keeps: words of wide tensors, and how many passes come in a row."""
    wide = {
        word for word in {*words(function), *_named(function)} if word.isidentifier() and _WIDE.search(word)
    }
    return frozenset(wide | {f"{PASS}{number + 1}" for number in range(_passes(function.body))})


def calls_model(function: Function) -> bool:
    """Whether a function calls the model itself."""
    return any(_is_pass(node, _MODELS) for node in ast.walk(function))


def _words(function: Function) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Name(id=word, ctx=ast.Load()) | ast.Attribute(attr=word, ctx=ast.Load()):
                yield word
            case ast.Constant(value=str(word)):
                yield word


def _named(function: Function) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
                yield word


def _passes(body: Iterable[ast.AST]) -> int:
    """How many passes of the model one way through statements has at most."""
    number = 0
    for node in body:
        if isinstance(node, ast.If | ast.IfExp):
            ways = [node.body, node.orelse]
            several = (way if isinstance(way, list) else [way] for way in ways)
            number += _passes([node.test]) + max(map(_passes, several))
        else:
            number += _is_pass(node, _PASSES) + _passes(ast.iter_child_nodes(node))
    return number


def _is_pass(node: ast.AST, names: frozenset[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names


def _parts(node: ast.AST) -> Iterator[str]:
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if name in _NOT_DONE or value is None or value == []:
            continue
        yield f"{name}="
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, ast.AST):
                yield repr(item)
            elif not _is_for_readers(item):
                yield from _parts(item)
    yield ";"


def _is_for_readers(node: ast.AST) -> bool:
    """Whether a statement only says something: a docstring, a print, a line of a log."""
    if not isinstance(node, ast.Expr):
        return isinstance(node, ast.Pass)
    value = node.value
    if isinstance(value, ast.Constant):
        return True
    func = value.func if isinstance(value, ast.Call) else None
    if isinstance(func, ast.Name):
        return func.id in _TOLD
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in _TELLERS
