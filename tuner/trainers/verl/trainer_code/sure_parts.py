"""What of a function is surely run when it is called: not what stands under a condition, or behind a return.

A loop is taken to run once. What a condition comes to may be known: then the branch that is taken is sure,
and the other is not there. Nothing is imported or run.
"""

import ast
from collections.abc import Callable, Iterator, Sequence

Holds = Callable[[ast.expr], bool | None]
"""Whether a condition holds; None where that is open."""

_LEAVES = (ast.Return, ast.Break, ast.Continue)
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # not run, or for no element
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def sure_statements(body: Sequence[ast.stmt], holds: Holds) -> Iterator[ast.stmt]:
    """The statements of a body that are surely run, those around others first.

    Of a statement with others in it, only the expressions at its head are, see :func:`sure_nodes`.
    """
    for statement in body:
        if isinstance(statement, _OWN_SCOPE):
            continue
        yield statement
        yield from sure_statements(_sure_body(statement, holds), holds)
        if isinstance(statement, (*_LEAVES, ast.Raise)) or _may_leave(statement, holds):
            return


def _sure_body(statement: ast.stmt, holds: Holds) -> Sequence[ast.stmt]:
    """The body that is run whatever is not known."""
    if isinstance(statement, ast.If):
        return _branch_taken(statement, holds) or ()
    if isinstance(statement, ast.For):
        return statement.body
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return () if any(map(_suppresses, statement.items)) else statement.body
    if isinstance(statement, ast.Try) and not statement.handlers:
        return statement.body
    return ()


def _branch_taken(statement: ast.If, holds: Holds) -> Sequence[ast.stmt] | None:
    """The branch that is taken, which may be empty; None where that is open."""
    held = holds(statement.test)
    return None if held is None else statement.body if held else statement.orelse


def _suppresses(item: ast.withitem) -> bool:
    """Whether what is raised below a context may go no further."""
    return any("suppress" in str(getattr(part, "attr", getattr(part, "id", ""))) for part in ast.walk(item))


def _may_leave(statement: ast.AST, holds: Holds) -> bool:
    """Whether what stands behind a statement may not be reached because of it.

    Leaving a loop ends what is sure of the statements behind the loop as well, which is more than is needed.
    """
    parts: list[ast.AST] = [statement]
    while parts:
        part = parts.pop()
        if isinstance(part, _LEAVES):
            return True
        taken = _branch_taken(part, holds) if isinstance(part, ast.If) else None
        if taken is not None:
            parts.extend(taken)
        elif not isinstance(part, _OWN_SCOPE):
            parts.extend(ast.iter_child_nodes(part))
    return False


def sure_nodes(statement: ast.stmt, holds: Holds) -> Iterator[ast.AST]:
    """The parts of a statement's own expressions that are surely evaluated."""
    yield from _evaluated(_head(statement), holds)


def _head(statement: ast.stmt) -> list[ast.AST]:
    if isinstance(statement, (ast.If, ast.While, ast.Assert)):
        return [statement.test]
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return [statement.iter]
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return [item.context_expr for item in statement.items]
    if isinstance(statement, ast.Match):
        return [statement.subject]
    return [] if isinstance(statement, ast.Try) else list(ast.iter_child_nodes(statement))


def _evaluated(parts: list[ast.AST], holds: Holds) -> Iterator[ast.AST]:
    while parts:
        part = parts.pop(0)
        yield part
        if isinstance(part, ast.BoolOp):
            parts.extend(_parts_asked(part, holds))
        elif isinstance(part, ast.IfExp):
            held = holds(part.test)
            parts.extend([part.test] if held is None else [part.test, part.body if held else part.orelse])
        elif not isinstance(part, _LATER):
            parts.extend(ast.iter_child_nodes(part))


def _parts_asked(part: ast.BoolOp, holds: Holds) -> Iterator[ast.expr]:
    """The parts of a condition up to the first one that may decide it."""
    for value in part.values:
        yield value
        if holds(value) is not isinstance(part.op, ast.And):
            return
