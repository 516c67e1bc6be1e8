"""Decides which configuration of fine-tuning a user's settings rest on, and which releases have it."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from tuner.errors import Location, UnsupportedError
from tuner.inputs.overrides import Arguments, Override, OverrideKind
from tuner.inputs.tree import Path, contains, dotted, lookup, split_key
from tuner.language import _
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.defaults import FINE_TUNING_CONFIGS, has_config
from tuner.trainers.verl.defaults_list import Composition
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.releases import BUNDLED, RELEASES
from tuner.trainers.verl.unmodelled_engines import UNMODELLED, EngineChoice, expect_release

_OWN, _FSDP, _MEGATRON, _VEOMNI = FINE_TUNING_CONFIGS
_CONFIG_OF_ENGINE = {
    "fsdp": _FSDP,
    "fsdp2": _FSDP,
    "fsdp_turbo": _FSDP,
    "megatron": _MEGATRON,
    "veomni": _VEOMNI,
}
_STRATEGY: Path = ("engine", "strategy")
_TARGET: Path = ("engine", "_target_")
_ENGINE_OF_CLASS = {
    "FSDPEngineConfig": "fsdp",
    "McoreEngineConfig": "megatron",
    "VeOmniEngineConfig": "veomni",
    "AutomodelEngineConfig": "automodel",
    "TorchtitanEngineConfig": "torchtitan",
    "MindSpeedEngineConfig": "mindspeed",
}
#: Config groups of the trainer on the model engines.
GROUPS = ("engine", "optim", "model")


def is_choice(override: Override) -> bool:
    """Whether an override chooses of a config group of fine-tuning: ``engine=megatron``."""
    named = override.key in GROUPS and override.package in (None, override.key)
    return named and isinstance(override.value, str) and override.kind is not OverrideKind.DELETE


def choose(program: Program, composition: Composition, arguments: Arguments, version: str) -> str:
    """The configuration, one of :data:`~tuner.trainers.verl.defaults.FINE_TUNING_CONFIGS`.

    Raises:
        UnsupportedError: the engine is not modelled, or the release has no such program.
    """
    config = config_of(program, composition, arguments)
    choice = None if program is Program.SFT else engine_choice(composition, arguments)
    if choice is not None and choice.engine in UNMODELLED:
        expect_release(choice, version)
    if has_config(version, config):
        return config
    if choice is not None and config == _VEOMNI:
        raise UnsupportedError(
            _("the training engine {engine!r} is modelled from verl 0.8.0 on, not in {version}").format(
                engine=choice.engine, version=version
            ),
            location=choice.location,
            key=choice.key,
            hint=_("give --verl-version 0.8.0 or newer"),
        )
    having = [release for release in BUNDLED if has_config(release, config)]
    raise UnsupportedError(
        _("verl.trainer.{program} is not known of verl {version}").format(
            version=version, program=program.value
        ),
        hint=_("it is of {first} to {last}: --verl-version {last}").format(first=having[0], last=having[-1]),
    )


def config_of(program: Program, composition: Composition, arguments: Arguments) -> str:
    """The configuration, whatever release has it.

    Raises:
        UnsupportedError: the engine is not modelled.
    """
    return _OWN if program is Program.SFT else _of_engine(composition, arguments)


def told_by_program(program: Program, bounded: ReleaseChoice | None) -> ReleaseChoice | None:
    """A release that has a program, as a guess; None where the installed one has it.

    Args:
        program: of fine-tuning.
        bounded: the guess by what a repository asks for.
    """
    config = _OWN if program is Program.SFT else _FSDP
    having = tuple(release for release in BUNDLED if has_config(release, config))
    both = tuple(release for release in having if bounded is not None and release in bounded.plausible)
    if bounded is not None and both:
        version = bounded.version if bounded.version in both else both[-1]
        return replace(bounded, version=version, plausible=both)
    installed = RELEASES.installed()
    if has_config(installed or BUNDLED[-1], config):
        return None if installed else RELEASES.newest_of(having)
    reason = _("the newest bundled release with verl.trainer.{program}").format(program=program.value)
    return ReleaseChoice(version=having[-1], reason=reason, certain=True, plausible=having)


def _of_engine(composition: Composition, arguments: Arguments) -> str:
    config = composition.config if composition.config in FINE_TUNING_CONFIGS else _FSDP
    choice = engine_choice(composition, arguments)
    if choice is not None and choice.engine in UNMODELLED:
        return _FSDP
    if choice is not None:
        if choice.engine not in _CONFIG_OF_ENGINE:
            message = _("the training engine {engine!r} is not modelled").format(engine=choice.engine)
            hint = _("FSDP (fsdp, fsdp2), Megatron (megatron) and VeOmni (veomni) are")
            raise UnsupportedError(message, location=choice.location, key=choice.key, hint=hint)
        config = _CONFIG_OF_ENGINE[choice.engine]
    _expect_same(arguments.overrides, config)
    return config


def engine_choice(composition: Composition, arguments: Arguments) -> EngineChoice | None:
    """The engine that the user names, by the most explicit word; None where no word names one."""
    first = next(_engines(composition, arguments), None)
    return None if first is None else EngineChoice(engine=str(first[0]), key=first[1], location=first[2])


def _engines(composition: Composition, arguments: Arguments) -> Iterator[tuple[Any, str, Location | None]]:
    """What the user says about the engine, the most explicit first."""
    for override in reversed(arguments.overrides):
        if is_choice(override) and override.key == GROUPS[0]:
            yield override.value, override.key, override.location
    if composition.engine is not None:
        yield composition.engine, "defaults", composition.engine_location
    for override in reversed(arguments.overrides):
        if split_key(override.key) == _STRATEGY:
            yield override.value, override.key, override.location
    for document in reversed(composition.documents):
        if contains(document.tree, _STRATEGY):
            yield lookup(document.tree, _STRATEGY), dotted(_STRATEGY), document.location(*_STRATEGY)
        if contains(document.tree, _TARGET):  # of a composed configuration
            name = str(lookup(document.tree, _TARGET)).rpartition(".")[2]
            yield _ENGINE_OF_CLASS.get(name, name), dotted(_TARGET), document.location(*_TARGET)


def _expect_same(overrides: Iterable[Override], config: str) -> None:
    """Refuse an optimizer of another engine, and another model than those of transformers."""
    optimizer = {_MEGATRON: "megatron", _VEOMNI: "veomni"}.get(config, "fsdp")
    known = {"optim": optimizer, "model": "hf_model"}
    for override in filter(is_choice, overrides):
        expected = known.get(override.key, override.value)
        if override.value != expected:
            raise UnsupportedError(
                _("{choice} is not modelled with this engine").format(choice=override.text),
                location=override.location,
                key=override.key,
                hint=_("{key}={expected} is").format(key=override.key, expected=expected),
            )
