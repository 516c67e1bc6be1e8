"""The class of each key in each release."""

from functools import cache

from tuner.enumeration import Enum
from tuner.inputs.interpolation import Resolver
from tuner.inputs.tree import contains, dotted, leaves, split_key
from tuner.trainers.key_facts import KeyClass, KeyKind
from tuner.trainers.verl.coverage.no_effect import NO_EFFECT, IdleKeys
from tuner.trainers.verl.coverage.not_modelled import NOT_MODELLED
from tuner.trainers.verl.coverage.omission import Omission
from tuner.trainers.verl.defaults import read_defaults, trainer_configs
from tuner.trainers.verl.keys import KEYS
from tuner.trainers.verl.releases import PREVIEWS, reaches
from tuner.trainers.verl.service_keys import ONLY_TEACHER, POLICY_SECTION, SERVED, SERVER_SECTIONS, TEACHERS
from tuner.trainers.verl.veomni_keys import VEOMNI


class Read(Enum):
    """The class of what reading a workload looks at."""

    MODELLED = "modelled"


Class = Read | IdleKeys | Omission


def classes(key: str, version: str) -> tuple[Class, ...]:
    """Every class that a key falls in, which is one for each key of a release's defaults."""
    rows = _stated(key, version)
    if rows:
        return rows
    if key in _setting_keys(version) or key in _sources(version):
        return (Read.MODELLED,)
    return tuple(row for row in NOT_MODELLED if row.rest and row.covers(key, version))


def of_release(version: str) -> tuple[KeyClass, ...]:
    """The keys of a release's configurations by class: what is modelled, then the rows of both tables."""
    rows: tuple[Class, ...] = (Read.MODELLED, *NO_EFFECT, *NOT_MODELLED)
    keys: dict[Class, list[str]] = {row: [] for row in rows}
    trees = (read_defaults(version, config).tree for config in trainer_configs(version))
    for key in sorted({dotted(path) for tree in trees for path, _ in leaves(tree) if path}):
        keys[classes(key, version)[0]].append(key)
    return tuple(_key_class(row, tuple(members)) for row, members in keys.items())


def of_key(key: str, version: str) -> KeyClass:
    """What is made of one key of a release's defaults."""
    return _key_class(classes(key, version)[0], (key,))


def _key_class(row: Class, keys: tuple[str, ...]) -> KeyClass:
    if isinstance(row, Read):
        return KeyClass(kind=KeyKind.MODELLED, keys=keys)
    if isinstance(row, IdleKeys):
        return KeyClass(kind=KeyKind.NO_EFFECT, name=row.name, reason=row.reason, keys=keys)
    return KeyClass(
        kind=KeyKind.NOT_MODELLED, name=row.title, reason=row.reason, affects=row.affects, keys=keys
    )


def nothing_else_covers(key: str, version: str) -> bool:
    """Whether a key is left to the rows of what remains."""
    return key not in _setting_keys(version) and not _stated(key, version)


def _stated(key: str, version: str) -> tuple[IdleKeys | Omission, ...]:
    """The rows of both tables that name a key."""
    rows: tuple[IdleKeys | Omission, ...] = (*NO_EFFECT, *(row for row in NOT_MODELLED if not row.rest))
    return tuple(row for row in rows if row.covers(key, version))


@cache
def _setting_keys(version: str) -> frozenset[str]:
    """The keys that a release's settings are read by, whichever of its workers run."""
    generations = (version, PREVIEWS.get(version, version))
    names = (name for names in (*KEYS.values(), *VEOMNI.values()) for name in names)
    read = {name.key for name in names if any(name.holds(generation, reaches) for generation in generations)}
    read |= {
        name.key.replace(POLICY_SECTION, section, 1)
        for meaning in SERVED
        for name in KEYS[meaning]
        if name.holds(version, reaches)
        for section in SERVER_SECTIONS
    }
    read.add(f"{TEACHERS}.{ONLY_TEACHER}.model_path")
    return frozenset(read | {"model_engine"})  # which chooses the configuration before anything is read


@cache
def _sources(version: str) -> frozenset[str]:
    """The keys that these take their values from by default."""
    sources: set[str] = set()
    for config in trainer_configs(version):
        tree = dict(read_defaults(version, config).tree)
        resolver = Resolver(tree)
        for path in map(split_key, _setting_keys(version)):
            if contains(tree, path):
                sources.update(map(dotted, resolver.path_chain(path)))
    return frozenset(sources)
