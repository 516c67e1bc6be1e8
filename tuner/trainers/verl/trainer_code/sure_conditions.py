"""The keys of a configuration in the conditions of the trainer's code, with the values of a launch.

Understood are keys that are read as attributes, by ``get`` with a default or by ``OmegaConf.select``.
``ray.is_initialized()`` is false: the program starts Ray itself. Whatever else stands in a condition leaves
it open, but for what :mod:`tuner.trainers.verl.trainer_code.conditions` follows.
"""

import ast
from collections.abc import Callable

from msgspec import Struct

from tuner.trainers.verl.trainer_code.conditions import holds, value_of
from tuner.trainers.verl.trainer_code.program_values import UNKNOWN, Value

KeyOf = Callable[[ast.expr], tuple[str, ...]]
"""The key of the configuration that a chain of attributes names; empty for anything else."""


class SureConditions(Struct, frozen=True, kw_only=True):
    """The conditions of one function under one configuration.

    Args:
        key_of: the key that an expression of the function names.
        value_of: the value of a key, or what is handed with it where the configuration has no such key; a
            section is a mapping.
    """

    key_of: KeyOf
    value_of: Callable[[tuple[str, ...], object], object]

    def holds(self, test: ast.expr) -> bool | None:
        """Whether a condition holds; None where that is open."""
        return holds(test, self)

    def operand(self, node: ast.expr) -> Value:
        """The value of a key; unknown for anything else."""
        if isinstance(node, ast.Attribute):
            key = self.key_of(node)
            return self.value_of(key, UNKNOWN) if key else UNKNOWN
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return UNKNOWN
        if node.func.attr == "is_initialized" and getattr(node.func.value, "id", "") == "ray":
            return False
        if node.func.attr == "select" and getattr(node.func.value, "id", "") == "OmegaConf":
            return self._selected(node)
        *section, method = self.key_of(node.func) or ("",)
        words = [value_of(part, self) for part in node.args]
        if method != "get" or node.keywords or not words or not isinstance(words[0], str) or len(words) > 2:
            return UNKNOWN
        default = words[1] if len(words) > 1 else None
        return self.value_of((*section, words[0]), default)

    def _selected(self, node: ast.Call) -> Value:
        """``OmegaConf.select(config.section, "a.b")``: null where there is nothing."""
        if len(node.args) != 2 or node.keywords or not (section := self.key_of(node.args[0])):
            return UNKNOWN
        word = value_of(node.args[1], self)
        return self.value_of((*section, *word.split(".")), None) if isinstance(word, str) else UNKNOWN

    def has(self, holder: Value, value: Value) -> Value:
        """Sections are mappings: nothing else is looked into."""
        return UNKNOWN
