"""Decides which of verl's trainer configurations a user's settings rest on."""

from collections.abc import Iterable, Iterator
from typing import Any

from tuner.errors import InputError, Location, UnsupportedError
from tuner.inputs.convert import described
from tuner.inputs.interpolation import MISSING, is_interpolation
from tuner.inputs.overrides import COMMAND_LINE, Arguments, OverrideKind
from tuner.inputs.tree import Path, contains, dotted, lookup, split_key
from tuner.language import _
from tuner.trainers.verl.defaults import CONFIGS, PPO_CONFIGS, VEOMNI_CONFIG, has_config, read_defaults
from tuner.trainers.verl.defaults_list import Composition, bundled_engine
from tuner.trainers.verl.entry_points import refuse_config
from tuner.trainers.verl.example_configs import example_config
from tuner.trainers.verl.recipes import named as recipe_named
from tuner.trainers.verl.unmodelled_engines import UNMODELLED, EngineChoice, expect_release

_FSDP, _MEGATRON = CONFIGS
_CONFIG_OF_ENGINE = {
    "dp": _FSDP,
    "fsdp": _FSDP,
    "fsdp2": _FSDP,
    "fsdp_turbo": _FSDP,
    "megatron": _MEGATRON,
    "veomni": VEOMNI_CONFIG,
}
_ENGINE: Path = ("model_engine",)
_STRATEGY: Path = ("actor_rollout_ref", "actor", "strategy")


def choose_config(composition: Composition, arguments: Arguments, keys: Iterable[Path], version: str) -> str:
    """The trainer configuration, one of :data:`~tuner.trainers.verl.defaults.CONFIGS`.

    The most explicit word wins: an engine, then a configuration named in a defaults list or by
    ``--config-name``, then a key that only the Megatron configuration has.

    Args:
        composition: the user's files.
        arguments: the user's overrides.
        keys: every key that the user sets.
        version: a bundled release.

    Raises:
        UnsupportedError: the engine is not modelled, or the configuration belongs to another entry point.
        InputError: the name of an engine is not a text.
    """
    choice = engine_choice(composition, arguments)
    if choice is not None:
        return _config_of(choice, version)
    named = _named_config(arguments.config_name, composition) or composition.config
    if named is not None:
        return named
    fsdp = read_defaults(version, _FSDP).tree
    return _MEGATRON if any(_is_megatron(path) and not contains(fsdp, path) for path in keys) else _FSDP


def engine_choice(composition: Composition, arguments: Arguments) -> EngineChoice | None:
    """The engine that the user names, by the most explicit word; None where no word names one.

    Raises:
        InputError: the name of an engine is not a text.
    """
    for engine, key, location in _engines(composition, arguments):
        if engine is None or engine == MISSING or is_interpolation(engine):
            continue
        if not isinstance(engine, str):
            message = _("expected the name of a training engine, got {described}")
            raise InputError(message.format(described=described(engine)), location=location, key=key)
        return EngineChoice(engine=engine, key=key, location=location)
    return None


def _config_of(choice: EngineChoice, version: str) -> str:
    """The configuration that an engine's job rests on."""
    if choice.engine in UNMODELLED:
        expect_release(choice, version)
        return _FSDP
    if choice.engine not in _CONFIG_OF_ENGINE:
        raise UnsupportedError(
            _("the training engine {engine!r} is not modelled").format(engine=choice.engine),
            location=choice.location,
            key=choice.key,
            hint=_("FSDP (fsdp, fsdp2), Megatron (megatron) and VeOmni (veomni) are"),
        )
    config = _CONFIG_OF_ENGINE[choice.engine]
    if not has_config(version, config):
        message = _("the training engine {engine!r} is modelled from verl 0.7.1 on, not in {version}")
        raise UnsupportedError(
            message.format(engine=choice.engine, version=version),
            location=choice.location,
            key=choice.key,
            hint=_("give --verl-version 0.7.1 or newer"),
        )
    return config


def _engines(composition: Composition, arguments: Arguments) -> Iterator[tuple[Any, str, Location | None]]:
    """What the user says about the training engine, by which key, the most explicit first."""
    settings = [item for item in reversed(arguments.overrides) if item.kind is not OverrideKind.DELETE]
    yield from ((item.value, item.key, item.location) for item in settings if item.key == _ENGINE[0])
    for item in settings:
        if item.package is not None:
            engine = bundled_engine(f"{item.key}@{item.package}", str(item.value))
            if engine != "dp":  # most groups are the same for every engine
                yield engine, f"{item.key}@{item.package}", item.location
    yield composition.engine, "defaults", composition.engine_location
    yield from (
        (item.value, item.key, item.location) for item in settings if split_key(item.key) == _STRATEGY
    )
    for path in (_STRATEGY, _ENGINE):
        for document in reversed(composition.documents):
            if contains(document.tree, path):
                yield lookup(document.tree, path), dotted(path), document.location(*path)


def _named_config(name: str | None, composition: Composition) -> str | None:
    """The configuration that ``--config-name`` means; None where the user's own file or keys say more."""
    if name is None:
        return None
    stem = name.removesuffix(".yaml")
    if stem in PPO_CONFIGS:
        return stem
    recipe = recipe_named(stem)
    if recipe is not None:
        return _MEGATRON if stem == recipe.megatron_config else _FSDP
    refuse_config(stem, Location(source=COMMAND_LINE))
    if not composition.empty:
        return None
    example = example_config(stem)
    if example is not None:
        return example.base
    return _MEGATRON if "megatron" in stem else None


def _is_megatron(path: Path) -> bool:
    return path[0] in ("actor_rollout_ref", "critic") and "megatron" in path[1:-1]
