"""A file of a copy of the trainer as its own code has it: what it defines and imports, and what it changes.

Source: OmegaConf 2.3 ``omegaconf.py`` (``merge``, ``unsafe_merge``, ``update``), ``basecontainer.py``
(``merge_with``).
"""

import ast
from collections import Counter
from functools import lru_cache

from msgspec import Struct

from tuner.trainers.verl.trainer_code.statements import parsed

_SELF = "self"
_OMEGACONF = "OmegaConf"
_CHANGES = ("merge", "unsafe_merge", "update")  # of OmegaConf: they lay values on a configuration
_MERGES = "merge_with"  # of a configuration itself

Function = ast.FunctionDef | ast.AsyncFunctionDef


class SourceModule(Struct, frozen=True, kw_only=True):
    """A file of the copy: what it defines, and from where it has other names."""

    file: str
    functions: dict[str, Function]
    classes: dict[str, ast.ClassDef]
    imports: dict[str, tuple[str, str]]  # the file and the name there
    texts: frozenset[str]  # every string constant
    stored: frozenset[str]  # attributes that are assigned to, but for an object's own
    changes: bool  # something lays another configuration on it, or takes keys that it lacks


def methods_of(owner: ast.ClassDef) -> dict[str, Function]:
    """The methods that a class defines itself, by their names."""
    return _functions(owner.body)


def _functions(body: list[ast.stmt]) -> dict[str, Function]:
    return {part.name: part for part in body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}


@lru_cache(maxsize=64)  # several checks, of every proposal, follow the same program
def source_module(file: str, text: str) -> SourceModule | None:
    """What a file of a copy has, by its path below the folder of the package; None of what is no Python."""
    tree = parsed(text)
    if tree is None:
        return None
    nodes = list(ast.walk(tree))
    dictionaries = _dictionaries(nodes)
    return SourceModule(
        file=file,
        functions=_functions(tree.body),
        classes={one.name: one for one in tree.body if isinstance(one, ast.ClassDef)},
        imports={
            alias.asname or alias.name: (f"{_imported(node, file)}.py", alias.name)
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        },
        texts=frozenset(
            node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ),
        stored=frozenset(
            _last(node)
            for node in nodes
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)
            if not _is_own(node) and getattr(node.value, "id", "") not in dictionaries
        ),
        changes=any(map(_changes, nodes)),
    )


def _imported(node: ast.ImportFrom, file: str) -> str:
    """The path of an imported module without its ending: a dot before it is the folder of the file."""
    folders = file.split("/")[: -node.level] if node.level else []
    return "/".join([*folders, *(node.module or "").split(".")])


def _last(node: ast.Attribute | ast.Subscript) -> str:
    """The name that an assignment gives something: of an attribute, or of a key that stands as a constant."""
    return node.attr if isinstance(node, ast.Attribute) else str(getattr(node.slice, "value", ""))


def _is_own(node: ast.Attribute | ast.Subscript) -> bool:
    """Whether it is an attribute of the object itself, which is no configuration."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == _SELF


def _dictionaries(nodes: list[ast.AST]) -> frozenset[str]:
    """The variables that hold nothing but dictionaries that the file itself makes: no configuration."""
    made = Counter(
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        for target in node.targets
        if isinstance(target, ast.Name)
    )
    stores = Counter(
        node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    given = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return frozenset(name for name, times in made.items() if stores[name] == times and name not in given)


def _changes(node: ast.AST) -> bool:
    """Whether it names what lays other values on a configuration."""
    if not isinstance(node, ast.Attribute):
        return False
    of = node.value
    whose = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
    return node.attr == _MERGES or (node.attr in _CHANGES and whose == _OMEGACONF)
