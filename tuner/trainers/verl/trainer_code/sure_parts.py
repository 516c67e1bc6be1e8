"""What of a function is surely run when it is called: not what stands under a condition, or behind a return.

A loop is taken to run once. Nothing is imported or run.
"""

import ast
from collections.abc import Iterator, Sequence

_LEAVES = (ast.Return, ast.Break, ast.Continue)
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # not run, or for no element
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def sure_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body that are surely run, those around others first.

    Of a statement with others in it, only the expressions at its head are, see :func:`sure_nodes`.
    """
    for statement in body:
        if isinstance(statement, _OWN_SCOPE):
            continue
        yield statement
        inside = _sure_body(statement)
        yield from sure_statements(inside)
        if isinstance(statement, (*_LEAVES, ast.Raise)) or _may_leave(statement):
            return


def _sure_body(statement: ast.stmt) -> Sequence[ast.stmt]:
    """The body that is run whatever a condition says."""
    if isinstance(statement, ast.For):
        return statement.body
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return () if any(map(_suppresses, statement.items)) else statement.body
    if isinstance(statement, ast.Try) and not statement.handlers:
        return statement.body
    return ()


def _suppresses(item: ast.withitem) -> bool:
    """Whether what is raised below a context may go no further."""
    return any("suppress" in str(getattr(part, "attr", getattr(part, "id", ""))) for part in ast.walk(item))


def _may_leave(statement: ast.stmt) -> bool:
    """Whether what stands behind a statement may not be reached because of it.

    Leaving a loop ends what is sure of the statements behind the loop as well, which is more than is needed.
    """
    parts = list(ast.iter_child_nodes(statement))
    while parts:
        part = parts.pop()
        if isinstance(part, _LEAVES):
            return True
        if not isinstance(part, _OWN_SCOPE):
            parts.extend(ast.iter_child_nodes(part))
    return False


def sure_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement's own expressions that are surely evaluated."""
    yield from _evaluated(_head(statement))


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


def _evaluated(parts: list[ast.AST]) -> Iterator[ast.AST]:
    while parts:
        part = parts.pop(0)
        yield part
        if isinstance(part, ast.BoolOp):
            parts.append(part.values[0])
        elif isinstance(part, ast.IfExp):
            parts.append(part.test)
        elif not isinstance(part, _LATER):
            parts.extend(ast.iter_child_nodes(part))
