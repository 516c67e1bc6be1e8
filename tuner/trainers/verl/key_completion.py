"""Completion of keys: those that begin as typed, with their defaults and what is made of them."""

import re
from collections.abc import Iterator
from typing import Any

from tuner.inputs.tree import dotted, leaves
from tuner.language import N_, _
from tuner.trainers.key_facts import KeyKind, OfferedKey
from tuner.trainers.verl.coverage.tables import PPO_COVERAGE
from tuner.trainers.verl.defaults import FINE_TUNING_CONFIGS, PPO_CONFIGS, has_config, read_defaults

_DESCRIBED = 100  # keys at a time: to class one takes a quarter of a millisecond, and nobody reads more
_WORD = re.compile(
    r"[A-Za-z][\w./-]*", re.ASCII
)  # text that needs no quotation marks in an override or a shell

_MADE_OF = {
    KeyKind.MODELLED: N_("counted in memory and seconds"),
    KeyKind.NO_EFFECT: N_("no effect on memory and seconds"),
    KeyKind.NOT_MODELLED: N_("what it changes is not counted"),
}


def offered_keys(version: str, begun: str) -> tuple[OfferedKey, ...]:
    """The keys of a bundled release that begin so, in the order of their names.

    Those of reinforcement learning come first; only where none begins so, those of fine-tuning.
    """
    keys = dict(_keys(version, PPO_CONFIGS, begun))
    described = bool(keys) and len(keys) <= _DESCRIBED
    keys = keys or dict(_keys(version, FINE_TUNING_CONFIGS, begun))
    written = {key: _written(keys[key]) for key in sorted(keys)}
    return tuple(
        OfferedKey(key=key, default=default, help=_help(key, default, version) if described else "")
        for key, default in written.items()
    )


def _keys(version: str, configs: tuple[str, ...], begun: str) -> Iterator[tuple[str, Any]]:
    for config in reversed(configs):  # where several have a key, the default is that of the first
        if has_config(version, config):
            for path, value in leaves(read_defaults(version, config).tree):
                if path and (key := dotted(path)).startswith(begun):
                    yield key, value


def _written(value: Any) -> str:
    """A default as an override has it; empty where another key decides it, or it is no number and no word."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        return str(value)
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def _help(key: str, default: str, version: str) -> str:
    """One line of a shell's list, since what is wider than the screen would be broken there."""
    words = _(_MADE_OF[PPO_COVERAGE.key_class(key, version).kind])
    return _("default {value}; {words}").format(value=default, words=words) if default else words
