"""The keys and config groups that a configuration of verl may have, and who lacks those that are unknown."""

from functools import cache

from msgspec.structs import replace

from tuner.inputs.overrides import Override, OverrideKind
from tuner.inputs.settings import UnknownKey
from tuner.inputs.tree import Path, dotted
from tuner.trainers.layers import refuse_group
from tuner.trainers.schema import Schema
from tuner.trainers.verl.defaults_list import bundled_engine
from tuner.trainers.verl.forks.fork import Fork
from tuner.trainers.verl.forks.translate import spelled_override
from tuner.trainers.verl.keys import keys_of
from tuner.trainers.verl.private_copy import PrivateDefaults
from tuner.trainers.verl.programs import Program


def has_key(schema: Schema, program: Program, path: Path) -> bool:
    """Whether the release has a key, or it is one that tells something of the job in any release."""
    return schema.has(path) or dotted(path) in _read_anywhere(program)


@cache
def _read_anywhere(program: Program) -> frozenset[str]:
    return frozenset(own.key for spellings in keys_of(program).values() for own in spellings)


def check_group(override: Override) -> None:
    """Accept a choice of a config group that is bundled; the choice of the configuration has read it."""
    group = override.key if override.package is None else f"{override.key}@{override.package}"
    if override.kind is OverrideKind.DELETE or bundled_engine(group, str(override.value)) is None:
        refuse_group(override)


def with_reader(unknown: UnknownKey, fork: Fork | None, private: PrivateDefaults | None) -> UnknownKey:
    """The unknown key as that of what lacks it: a project whose keys are other than verl's, or a copy."""
    if fork is None or not fork.renames:
        return unknown if private is None else replace(unknown, reader=private.name)
    nearest = None if unknown.nearest is None else spelled_override(fork, unknown.nearest)
    return replace(unknown, reader=fork.name, nearest=nearest, refused=False, known_in=())
