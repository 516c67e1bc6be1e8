"""The sections that a release makes dataclasses of, whose classes take no key but their fields.

Of what the launch adds with ``+``, or in a file of its own, Hydra lets everything into the configuration. The
worker then calls the class with all of it, and Python raises a ``TypeError`` for what is no field. What the
code of a copy takes out of the configuration before does not come to the class.

Source: verl 0.6.0 ``utils/config.py:23-61`` (``omega_conf_to_dataclass``), ``utils/config.py:151`` (the
actor's), ``workers/fsdp_workers.py:568-569, 791``, ``workers/megatron_workers.py:395-396, 501``; 0.9.1
``workers/engine_workers.py:540, 593, 651``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from tuner.inputs.settings import Settings
from tuner.inputs.tree import Path, dotted
from tuner.trainers.verl.defaults import PPO_CONFIGS, has_config, read_defaults
from tuner.trainers.verl.programs import Program, program_of
from tuner.trainers.verl.releases import reaches
from tuner.trainers.verl.unmodelled_engines import titled

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

_SINCE = "0.6.0"
_ROOT = "actor_rollout_ref"
_SECTIONS = ("rollout", "actor", "model")
_STRATEGY = "actor_rollout_ref.actor.strategy"
_MAKES = "omega_conf_to_dataclass"
_WORKERS = "fsdp_workers"

Fields = Callable[[str], Collection[str] | None]


class NoField(Struct, frozen=True, kw_only=True):
    """A key that the user adds to a section whose class has no such field."""

    path: Path
    name: str  # of the class

    @property
    def key(self) -> str:
        """The key as it is typed."""
        return dotted(self.path)


def no_fields(settings: Settings, version: str, code: "TrainerCode | None") -> Iterator[NoField]:
    """The keys of the user that end the job when a worker makes a dataclass of their section.

    Args:
        settings: that the user gives.
        version: the release.
        code: the copy of verl that would run, whose classes count and not those of the release.
    """
    if program_of(settings.defaults) is not Program.PPO or settings.program is not None:
        return
    if code is None and (not reaches(version, _SINCE) or makes_none(settings)):
        return
    fields_of = _fields_of_release(version) if code is None else _fields_of_copy(code)
    sections = _sections(settings)
    for path in settings.origins:
        if path[:1] != (_ROOT,) or len(path) < 3 or path[1] not in sections:
            continue
        node, rest = _descend(settings.defaults, path)
        target = str(node.get("_target_") or "")
        if not rest or not target or rest[0].startswith("_"):
            continue
        if code is not None and not code.has_statement(f"{_MAKES} {path[1]}"):
            continue
        fields = fields_of(target)
        if fields and rest[0] not in fields:
            key = path[: len(path) - len(rest) + 1]
            if code is not None and code.takes_away(key, settings.started):
                continue
            yield NoField(path=path, name=target.rpartition(".")[2])


def makes_none(settings: Settings) -> bool:
    """Whether a project's own workers take the sections as they are."""
    return settings.own_code is not None and settings.own_code(_MAKES, _WORKERS) is False


def _sections(settings: Settings) -> tuple[str, ...]:
    """Sections whose class is known: an engine that is not modelled has one of its own for the actor."""
    own = titled(settings.get(_STRATEGY))
    return tuple(section for section in _SECTIONS if not (own and section == "actor"))


def _descend(tree: Mapping[str, object], path: Path) -> tuple[Mapping[str, object], Path]:
    """The deepest section on the way to a key, and what of the key it lacks."""
    node = tree
    for depth, name in enumerate(path):
        if name not in node:
            return node, path[depth:]
        below = node[name]
        if not isinstance(below, Mapping):
            return node, ()
        node = below
    return node, ()


def _fields_of_release(version: str) -> Fields:
    known: dict[str, tuple[str, ...]] = {}
    for config in PPO_CONFIGS:
        if has_config(version, config):
            known.update(read_defaults(version, config).fields)
    return known.get


def _fields_of_copy(code: "TrainerCode") -> Fields:
    return lambda target: code.dataclass_fields(target.rpartition(".")[2])
