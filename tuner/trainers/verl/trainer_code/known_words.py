"""The words that a copy of the trainer takes for a key: members of an enumeration, or registered names."""

import ast
import re
from collections.abc import Iterator, Mapping

from tuner.trainers.verl.trainer_code.statements import parsed


def registered(
    texts: Mapping[str, str], decorator: str, *, file: str = "", outside: str = ""
) -> tuple[str, ...]:
    """The names that some class or function is registered under, in the order of the files.

    Args:
        texts: of the files, by their paths.
        decorator: a pattern of its name.
        file: what stands in the paths of their files.
        outside: what stands in the paths of files with another registry; empty where there is none.
    """
    pattern = re.compile(rf"""^[ \t]*@(?:\w+\.)*{decorator}\(\s*["']([\w.-]+)["']""", re.MULTILINE)
    words = (
        word
        for name, text in texts.items()
        if file in name and not (outside and outside in name)
        for word in pattern.findall(text)
    )
    return tuple(dict.fromkeys(words))


def members(texts: Mapping[str, str], enumeration: str) -> tuple[str, ...]:
    """The values of an enumeration, of all classes of its name."""
    trees = (parsed(text) for text in texts.values() if f"class {enumeration}" in text)
    words = (word for tree in trees if tree is not None for word in _values(tree, enumeration))
    return tuple(dict.fromkeys(words))


def _values(tree: ast.Module, enumeration: str) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == enumeration:
            for line in node.body:
                value = line.value if isinstance(line, ast.Assign) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value
