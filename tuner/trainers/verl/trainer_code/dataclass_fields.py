"""The fields of a dataclass in a copy of the trainer, those of its bases included; nothing is imported."""

import ast
import re
from collections.abc import Mapping

from tuner.trainers.verl.trainer_code.statements import parsed


def dataclass_fields(texts: Mapping[str, str], name: str) -> frozenset[str] | None:
    """The fields of the class of a name; None where none or several are found, or a base of it is not.

    Args:
        texts: of the files of the copy.
        name: of the class.
    """
    found = [node for text in texts.values() for node in _classes(text, name)]
    if len(found) != 1:
        return None
    fields = {
        part.target.id
        for part in found[0].body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    if any(isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in found[0].body):
        return None  # it may take anything
    for base in found[0].bases:
        of_base = dataclass_fields(texts, base.id) if isinstance(base, ast.Name) and base.id != name else None
        if of_base is None and getattr(base, "attr", "") != "Mapping":
            return None
        fields |= of_base or set()
    return frozenset(fields)


def _classes(text: str, name: str) -> list[ast.ClassDef]:
    if not re.search(rf"^class {re.escape(name)}\b", text, re.MULTILINE):
        return []
    tree = parsed(text)
    body = [] if tree is None else tree.body
    return [node for node in body if isinstance(node, ast.ClassDef) and node.name == name]
