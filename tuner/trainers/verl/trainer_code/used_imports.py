"""Whether a file uses what it imports: an import that was left behind says nothing of what runs."""

import ast
from collections.abc import Iterator

from tuner.trainers.verl.trainer_code.statements import parsed


def uses_package(text: str, package: str) -> bool:
    """Whether a file names something again that it has imported from a package.

    Args:
        text: of the file; nothing of it is run.
        package: the first part of what it imports.
    """
    tree = parsed(text) if package in text else None
    if tree is None:
        return False
    names = set(_imported(tree, package))
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(tree))


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """The names that a file gives to what it imports from a package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == package:
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == package:
                    yield alias.asname or package
