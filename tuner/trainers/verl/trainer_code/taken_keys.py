"""The keys that code takes out of its configuration: ``del config.model.own``, ``config.model.pop("own")``.

A class that is made of a section afterwards does not get them. Nothing is imported or run.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from tuner.trainers.verl.trainer_code.statements import parsed

_TAKES = re.compile(r"\bdel\b|\.pop\(|\bdelattr\(")
_CONFIG = re.compile(r"config|cfg", re.IGNORECASE)  # in the name of what holds settings


def taken_keys(texts: Iterable[str]) -> frozenset[tuple[str, ...]]:
    """The last parts of the keys that some files take away: with their section where the code names it.

    Args:
        texts: of the files.
    """
    taken = set[tuple[str, ...]]()
    for text in texts:
        if _TAKES.search(text) and _CONFIG.search(text) and (tree := parsed(text)) is not None:
            taken.update(_paths_taken_away(tree))
    return frozenset(taken)


def is_taken(path: tuple[str, ...], taken: frozenset[tuple[str, ...]]) -> bool:
    """Whether a key is among those, by its name and by its section where that is named."""
    return path[-1:] in taken or path[-2:] in taken


def _paths_taken_away(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    loops = dict(_loops(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Delete(targets=targets):
                for target in targets:
                    yield from _of_target(target, loops)
            case ast.Call(func=ast.Attribute(value=holder, attr="pop"), args=[key, *_]):
                yield from _keys(holder, _names(key, loops))
            case ast.Call(func=ast.Name(id="delattr"), args=[holder, key]):
                yield from _keys(holder, _names(key, loops))


def _of_target(target: ast.expr, loops: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    match target:
        case ast.Attribute(value=holder, attr=name):
            yield from _keys(holder, (name,))
        case ast.Subscript(value=holder, slice=key):
            yield from _keys(holder, _names(key, loops))


def _keys(holder: ast.expr, names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The names with the section that they are taken from, where that has one of its own."""
    parts = _chain(holder)
    if not any(map(_CONFIG.search, parts)):
        return
    section = () if _CONFIG.search(parts[-1]) else parts[-1:]
    yield from ((*section, name) for name in names)


def _chain(node: ast.expr) -> tuple[str, ...]:
    """The names of ``self.config["model"]``, from the left."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=value, attr=name):
            return (*_chain(value), name)
        case ast.Subscript(value=value, slice=ast.Constant(value=str(name))):
            return (*_chain(value), name)
    return ()


def _names(key: ast.expr, loops: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    match key:
        case ast.Constant(value=str(name)):
            return (name,)
        case ast.Name(id=name):
            return loops.get(name, ())
    return ()


def _loops(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The texts that a variable goes through: ``for key in ("a", "b")``."""
    for node in ast.walk(tree):
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.Tuple(elts=items) | ast.List(elts=items)):
                yield (
                    name,
                    tuple(
                        item.value
                        for item in items
                        if isinstance(item, ast.Constant) and isinstance(item.value, str)
                    ),
                )
