"""The calls of the workers in the training loop of a copy of the trainer, with the conditions around them.

The calls of the engine in its rollout stand in a method of a class as well.

Nothing is imported or run.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct

from tuner.trainers.verl.trainer_code.statements import parsed, words
from tuner.trainers.verl.trainer_code.sure_conditions import SureConditions

TRAINER, _LOOP = "RayPPOTrainer", "fit"
_SELF, _CONFIG = "self", "config"
NO_ATTRIBUTES: Mapping[str, object] = MappingProxyType({})
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class LoopCall(Struct, frozen=True, kw_only=True):
    """A call in the loop."""

    line: int
    function: str
    holds: bool | None  # all conditions around it; None where one is open
    keys: tuple[tuple[str, ...], ...]  # of the configuration, that the conditions name
    words: frozenset[str]  # of the conditions
    texts: tuple[frozenset[str], ...]  # the constants of each condition that is open


class _Around(Struct, frozen=True, kw_only=True):
    """A condition around a statement: an expression, and which of its branches this is; None of a handler."""

    test: ast.expr | None
    branch: bool = True


def calls_of_fit(
    text: str,
    wanted: Callable[[ast.Call], bool],
    value_of: Callable[[tuple[str, ...], object], object],
    *,
    owner: str = TRAINER,
    attributes: Mapping[str, object] = NO_ATTRIBUTES,
) -> tuple[LoopCall, ...]:
    """The calls in the loop of verl's own trainer.

    Args:
        text: of the trainer's file.
        wanted: which of its calls of methods.
        value_of: the values of the launch, by which conditions are decided.
        owner: the class that has the loop.
        attributes: of the trainer, that are no keys, with their values.
    """
    asked: list[tuple[str, ...]] = []

    def key(node: ast.expr) -> tuple[str, ...]:
        attribute = node.attr if isinstance(node, ast.Attribute) else ""
        own = attribute in attributes and ast.unparse(node) == f"{_SELF}.{attribute}"
        return (_SELF, attribute) if own else key_of(node)

    def value(key: tuple[str, ...], default: object) -> object:
        if key[:1] == (_SELF,):
            return attributes[key[1]]
        asked.append(key)
        return value_of(key, default)

    conditions = SureConditions(key_of=key, value_of=value)
    calls = []
    for node, function, around in _calls_of(text, owner, _LOOP):
        if not wanted(node):
            continue
        asked.clear()
        held = [_holds(one, conditions) for one in around]
        calls.append(
            LoopCall(
                line=node.lineno,
                function=function,
                holds=False if False in held else None if None in held else True,
                keys=tuple(dict.fromkeys(asked)),
                words=frozenset().union(*(words(one.test) for one in around if one.test is not None)),
                texts=tuple(_texts(one) for one, holds in zip(around, held, strict=True) if holds is None),
            )
        )
    return tuple(calls)


def named(*functions: str) -> Callable[[ast.Call], bool]:
    """What tells calls of functions by their names."""
    return lambda node: isinstance(node.func, ast.Attribute) and node.func.attr in functions


def lines_of_method(text: str, owner: str, method: str, function: str) -> tuple[int, ...]:
    """The lines in a method of a class that call a function under no condition."""
    calls = _calls_of(text, owner, method)
    return tuple(node.lineno for node, name, around in calls if name == function and not around)


@lru_cache(maxsize=8)  # every proposal asks of the same trainer
def _calls_of(text: str, owner: str, method: str) -> tuple[tuple[ast.Call, str, tuple[_Around, ...]], ...]:
    """The calls of methods, the name of each and the conditions around it; none of what is no Python."""
    tree = parsed(text)
    return tuple(
        (node, node.func.attr, around)
        for node, around in _calls([] if tree is None else _body(tree, owner, method), ())
        if isinstance(node.func, ast.Attribute)
    )


def body_of_fit(tree: ast.Module) -> list[ast.stmt]:
    """The statements of the loop; none where the file has no such trainer."""
    return _body(tree, TRAINER, _LOOP)


def _body(tree: ast.Module, owner: str, method: str) -> list[ast.stmt]:
    """The statements of a method; none where the file has no such class."""
    return next(
        (
            inside.body
            for part in tree.body
            if isinstance(part, ast.ClassDef) and part.name == owner
            for inside in part.body
            if isinstance(inside, ast.FunctionDef) and inside.name == method
        ),
        [],
    )


def _texts(one: _Around) -> frozenset[str]:
    nodes = () if one.test is None or not one.branch else ast.walk(one.test)
    return frozenset(
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _calls(
    body: list[ast.stmt], around: tuple[_Around, ...]
) -> Iterator[tuple[ast.Call, tuple[_Around, ...]]]:
    for statement in body:
        if isinstance(statement, _OWN_SCOPE):
            continue
        for part in ast.iter_child_nodes(statement):
            if not isinstance(part, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from ((node, around) for node in ast.walk(part) if isinstance(node, ast.Call))
        for inside, condition in _bodies(statement):
            yield from _calls(inside, around if condition is None else (*around, condition))


def _bodies(statement: ast.stmt) -> Iterator[tuple[list[ast.stmt], _Around | None]]:
    """The bodies of a statement, each with the condition under which it is run."""
    if isinstance(statement, ast.If):
        yield statement.body, _Around(test=statement.test)
        yield statement.orelse, _Around(test=statement.test, branch=False)
        return
    yield getattr(statement, "body", []), None
    yield getattr(statement, "finalbody", []), None
    yield getattr(statement, "orelse", []), None if isinstance(statement, ast.Try) else _Around(test=None)
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body, _Around(test=None)


def _holds(one: _Around, conditions: SureConditions) -> bool | None:
    """Whether a condition lets the statement run; every key that it names is asked for."""
    for part in () if one.test is None else _operands(one.test):
        conditions.holds(part)
    held = None if one.test is None else conditions.holds(one.test)
    return None if held is None else held is one.branch


def _operands(test: ast.expr) -> Iterator[ast.expr]:
    """The parts that ``and``, ``or`` and ``not`` join, of which one may decide before the next is asked."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _operands(value)
    elif isinstance(test, ast.UnaryOp):
        yield from _operands(test.operand)
    else:
        yield test


def key_of(node: ast.expr) -> tuple[str, ...]:
    """The key that a chain of attributes of ``self.config`` names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    own = isinstance(node, ast.Name) and node.id == _SELF and parts[:1] == [_CONFIG]
    return tuple(parts[1:]) if own else ()
