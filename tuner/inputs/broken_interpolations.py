"""Interpolations of a tree that OmegaConf surely cannot resolve: circles, and keys that are not there.

Only keys are followed, as OmegaConf does it: node by node, a section being no value. What a resolver would
give, such as one that a program registers or the environment, is nothing that is known here.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from tuner.inputs.interpolation import KEYS_ONLY, NODE, UnresolvedError, absolute, is_interpolation
from tuner.inputs.tree import Path, Tree, leaves

_MOST_OPEN = 64  # interpolations that point at interpolations
_SHELL = re.compile(r"[A-Z][A-Z0-9_]*")  # a variable that something fills in before Hydra reads the file


class BrokenInterpolation(Struct, frozen=True, kw_only=True):
    """An interpolation that ends whatever resolves it."""

    path: Path  # where it stands
    target: Path  # what is not there, or the key at which the circle closes
    circle: tuple[Path, ...] = ()  # the way round, ``target`` at both ends; empty where a key is missing


class _BrokenError(Exception):
    def __init__(self, target: Path, circle: tuple[Path, ...] = ()) -> None:
        self.target, self.circle = target, circle


class _UnsureError(Exception):
    """A resolver decides."""


def broken_interpolations(tree: Tree) -> Iterator[BrokenInterpolation]:
    """The interpolations of a tree that have no value for certain, in the order of the tree."""
    for path, text in leaves(tree):
        if is_interpolation(text):
            try:
                _follow(tree, text, path, (path,))
            except _BrokenError as broken:
                yield BrokenInterpolation(path=path, target=broken.target, circle=broken.circle)
            except _UnsureError:
                pass


def _follow(tree: Tree, text: str, home: Path, way: tuple[Path, ...]) -> None:
    """Follow what a text points at, down to values.

    Raises:
        _BrokenError: something on the way is missing or on the way already.
        _UnsureError: a resolver would be asked.
    """
    for key in _keys(text):
        path, node = _located(tree, _path_of(key, home), way)
        if is_interpolation(node):
            _follow(tree, str(node), path, _longer(way, path))


def _located(tree: Tree, path: Path, way: tuple[Path, ...]) -> tuple[Path, object]:
    """Where a node really stands, once sections that stand for others are followed, and the node."""
    home: Path = ()
    node: object = tree
    for name in path:
        while is_interpolation(node):
            match = NODE.fullmatch(str(node))
            if match is None:
                raise _UnsureError
            way = _longer(way, home)
            home, node = _located(tree, _path_of(match[1], home), way)
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        elif isinstance(node, dict) or node is None:
            raise _BrokenError(path)
        else:
            raise _UnsureError
        home = (*home, name)
    return home, node


def _longer(way: tuple[Path, ...], path: Path) -> tuple[Path, ...]:
    if path in way:
        raise _BrokenError(path, (*way[way.index(path) :], path))
    if len(way) >= _MOST_OPEN:
        raise _UnsureError
    return (*way, path)


def _keys(text: str) -> Iterator[str]:
    """The keys that a text points at."""
    if not KEYS_ONLY.fullmatch(text):
        raise _UnsureError
    keys = [match[1] for match in NODE.finditer(text)]
    if any(map(_SHELL.fullmatch, keys)):
        raise _UnsureError
    return iter(keys)


def _path_of(key: str, home: Path) -> Path:
    try:
        return absolute(key, home)
    except UnresolvedError:
        raise _UnsureError from None
