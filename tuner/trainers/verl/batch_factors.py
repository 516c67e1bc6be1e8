"""By what a copy of verl multiplies a step's batch and micro-batches, where no release does.

A release repeats prompts ``rollout.n`` times, and scales the mini-batch alike. A copy may do so by keys of
its own: then its sizes are those of a release times a product of these keys, as far as its code says so.
"""

from collections.abc import Iterator
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from tuner.inputs.settings import BatchFactor, Settings
from tuner.inputs.tree import dotted
from tuner.trainers.verl.added_parts import own_sections

if TYPE_CHECKING:
    import ast

    from tuner.trainers.verl.trainer_code.multiplied import Multiplied
    from tuner.trainers.verl.trainer_code.package import TrainerCode
    from tuner.trainers.verl.trainer_code.project_code import ProjectCode

#: The training batch, which a trainer repeats.
PROMPTS = "data.train_batch_size"

_ROLE = (
    "actor_rollout_ref"  # whose section workers of actor, rollout and reference have as their configuration
)
_SCALED = ("ppo_mini_batch_size", "micro_batch_size")
_BY_PROJECT = ("actor_rollout_ref.rollout.n_agent",)  # read where the project is known
_WORKERS, _TRAINERS = "workers/fsdp_workers.py", "trainer/ppo/"
_OWN_WORKERS, _OWN_TRAINERS = "fsdp_workers", "trainer"  # what names of a project's own modules have in them


def batch_factors(
    settings: Settings, version: str, code: "TrainerCode | ProjectCode"
) -> tuple[BatchFactor, ...]:
    """The factors of the batch and of sizes that workers scale, with the keys that make them.

    Args:
        settings: of the launch.
        version: the release.
        code: the copy of verl, or the modules of a project of its own.
    """
    own = {dotted(section) for section, _key in own_sections(settings, version)}
    if settings.program is not None:
        own.difference_update(_BY_PROJECT)
    if not own:
        return ()
    repeats = {found.keys: found.factor for found in _repeats(settings, code) if _names(found, own)}
    repeated = BatchFactor(
        key=PROMPTS, factor=prod(repeats.values()), keys=tuple(key for keys in repeats for key in keys)
    )
    scaled = (
        BatchFactor(key=f"{_ROLE}.{found.target}", factor=found.factor, keys=_full(found.keys))
        for found in _scaled(settings, code)
        if _names(found, own) and any(size in found.target for size in _SCALED)
    )
    factors = (repeated, *scaled)
    return tuple(factor for factor in factors if factor.factor > 1)


def factor_of(settings: Settings, key: str | None) -> int:
    """By what a copy multiplies the size at a key; 1 where it does not."""
    return next((found.factor for found in settings.batch_factors if found.key == key), 1)


def _repeats(settings: Settings, code: "TrainerCode | ProjectCode") -> "Iterator[Multiplied]":
    from tuner.trainers.verl.trainer_code.multiplied import repeated  # where a launch has keys of its own

    for bodies in _trainers(settings, code):
        yield from repeated(bodies, settings.get)


def _trainers(settings: Settings, code: "TrainerCode | ProjectCode") -> "Iterator[list[list[ast.stmt]]]":
    """The bodies that repeat something, of each trainer."""
    from tuner.trainers.verl.trainer_code.multiplied import bodies_that_repeat
    from tuner.trainers.verl.trainer_code.project_code import ProjectCode

    if isinstance(code, ProjectCode):
        yield from map(bodies_that_repeat, code.trees(_OWN_TRAINERS))
        return
    from tuner.trainers.verl.own_trainers import own_trainers  # where a launch has keys of its own

    own = list(dict.fromkeys(file for file, _text, _name in own_trainers(settings.started, code)))
    if own and not any(_TRAINERS in file for file in own):
        files = own
    else:
        trainers = code.imports(settings.started, _TRAINERS)
        lines = code.lines(("repeat_times",), stops=False, file=_TRAINERS)
        files = [name for name in {line.file for line in lines} if not trainers or name in trainers]
    for name in files:
        tree = code.tree(name)
        if tree is not None:
            yield code.remembered(("bodies that repeat", name), partial(bodies_that_repeat, tree))


def _scaled(settings: Settings, code: "TrainerCode | ProjectCode") -> "Iterator[Multiplied]":
    from tuner.trainers.verl.trainer_code.multiplied import scaled, starts_of_workers
    from tuner.trainers.verl.trainer_code.project_code import ProjectCode

    if isinstance(code, ProjectCode):
        for workers in code.trees(_OWN_WORKERS):
            yield from scaled(starts_of_workers(workers), partial(_value_in_role, settings))
        return
    for name in {line.file for line in code.lines((_SCALED[0],), stops=False, file=_WORKERS)}:
        tree = code.tree(name)
        if tree is not None:
            starts = code.remembered(("starts of workers", name), partial(starts_of_workers, tree))
            yield from scaled(starts, partial(_value_in_role, settings))


def _value_in_role(settings: Settings, key: str) -> Any:
    return settings.get(f"{_ROLE}.{key}")


def _names(found: "Multiplied", own: set[str]) -> bool:
    """Whether a product has a key that no release has, or one below such a section."""
    return any(
        key == it or key.startswith(f"{it}.") for key in (*found.keys, *_full(found.keys)) for it in own
    )


def _full(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{_ROLE}.{key}" for key in keys)
