"""Where the training loop of a copy of the trainer hands the job to a function of its own and ends.

Nothing is imported or run.
"""

import ast
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from tuner.trainers.verl.trainer_code.calls_of_fit import body_of_fit, key_of
from tuner.trainers.verl.trainer_code.statements import parsed
from tuner.trainers.verl.trainer_code.sure_conditions import SureConditions

_READS = "get"  # a key of a section


class LoopElsewhere(Struct, frozen=True, kw_only=True):
    """The statement that starts another loop."""

    line: int
    keys: tuple[tuple[str, ...], ...]  # of the configuration, that decide it


def loop_elsewhere(text: str, value_of: Callable[[tuple[str, ...], object], object]) -> LoopElsewhere | None:
    """The first ``return`` of a call that surely ends the loop of verl's own trainer; None without one.

    Args:
        text: of the trainer's file.
        value_of: the values of the launch, by which conditions are decided.
    """
    tree = parsed(text)
    body = [] if tree is None else body_of_fit(tree)
    names = dict(_named_once(body))
    for statement in body:
        if isinstance(statement, ast.If) and _hands_over(statement.body):
            asked: list[tuple[str, ...]] = []

            def value(key: tuple[str, ...], default: object, asked: list[tuple[str, ...]] = asked) -> object:
                asked.append(key)
                return value_of(key, default)

            test = _Written(names).visit(ast.parse(ast.unparse(statement.test), mode="eval")).body
            if SureConditions(key_of=_key, value_of=value).holds(test):
                return LoopElsewhere(line=statement.body[-1].lineno, keys=tuple(dict.fromkeys(asked)))
    return None


def _hands_over(body: list[ast.stmt]) -> bool:
    """Whether statements end with the return of a call that gets the trainer."""
    last = body[-1]
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Call):
        return False
    return any(isinstance(part, ast.Name) and part.id == "self" for part in ast.walk(last.value))


def _named_once(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """The names that stand for one expression in the whole loop."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for statement in body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name) and stored.count(target.id) == 1:
                yield target.id, statement.value


class _Written(ast.NodeTransformer):
    """A condition with names as what they stand for, and without ``bool`` around a value."""

    def __init__(self, names: Mapping[str, ast.expr]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._names.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "bool" and len(node.args) == 1:
            return self.visit(node.args[0])  # type: ignore[no-any-return]
        return self.generic_visit(node)


def _key(node: ast.expr) -> tuple[str, ...]:
    """The key that attributes and ``get`` of sections name."""
    if isinstance(node, ast.Attribute):
        inner = node.value
        section = _section(inner) if isinstance(inner, ast.Call) else ()
        return (*section, node.attr) if section else key_of(node)
    return _section(node) if isinstance(node, ast.Call) else key_of(node)


def _section(node: ast.Call) -> tuple[str, ...]:
    """The section that ``holder.get("name", {})`` gives."""
    func, args = node.func, node.args
    if not isinstance(func, ast.Attribute) or func.attr != _READS or not args or node.keywords:
        return ()
    holder, name = _key(func.value), args[0]
    known = isinstance(name, ast.Constant) and isinstance(name.value, str)
    return (*holder, name.value) if holder and known else ()  # type: ignore[attr-defined]
