"""The configuration that verl prints when it starts: of which release it is, and what a user changed in it.

Every setting is in it, defaults too, with interpolations resolved. So the release is told by its keys, and
what the user set is what differs from that release.

Source: verl ``trainer/main_ppo.py`` (``pprint(OmegaConf.to_container(config, resolve=True))``).
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tuner.inputs.interpolation import is_interpolation
from tuner.inputs.override_syntax import same
from tuner.inputs.resolution import ABSENT
from tuner.inputs.settings import Layer, Origin, Settings
from tuner.inputs.tree import Path, Tree, contains, dotted, leaves, merged, nested
from tuner.inputs.yaml_file import Document
from tuner.language import _, ngettext
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.defaults import (
    CONFIGS,
    FINE_TUNING_CONFIGS,
    has_config,
    read_defaults,
)
from tuner.trainers.verl.limits import expect_few
from tuner.trainers.verl.recipe import Recipe
from tuner.trainers.verl.recipes import recognise
from tuner.trainers.verl.releases import BUNDLED
from tuner.trainers.verl.schema import releases_with

_NOT_OF_A_JOB = ("defaults", "hydra")
_CHAIN = 16  # interpolations that point at interpolations
# verl prints every key that it has, so one that a release lacks speaks for a later state of verl; users add
# few with ``+``. One that only the release has may have come after the state of development that was run.
_ONLY_PRINTED = 3  # times as far from the release as a key that only the release has


class PrintedBy(Struct, frozen=True, kw_only=True):
    """The bundled configuration that is nearest to a printed one."""

    version: str
    config: str  # one of CONFIGS or FINE_TUNING_CONFIGS
    other_keys: int  # that one of both has and the other has not


def printed_by(document: Document) -> PrintedBy:
    """The release whose keys, and then whose values, a printed configuration has; the newest of equals.

    Raises:
        UnsupportedError: it has more settings than any configuration of verl.
    """
    tree = _job(document.tree)
    expect_few(_leaf_count(tree), document.location())
    configs = (*CONFIGS, *FINE_TUNING_CONFIGS)
    candidates = [
        (version, config)
        for version in reversed(BUNDLED)
        for config in configs
        if has_config(version, config)
    ]
    others = [_difference_counts(tree, dict(read_defaults(*candidate).tree)) for candidate in candidates]
    least, (version, config) = min(
        zip(others, candidates, strict=True), key=lambda candidate: candidate[0].distance
    )
    return PrintedBy(version=version, config=config, other_keys=least.printed_keys + least.release_keys)


def release_of_printed(document: Document) -> ReleaseChoice:
    """The release that a printed configuration tells."""
    printer = printed_by(document)
    if printer.other_keys == 0:
        reason = _("the printed settings are those of {version}").format(version=printer.version)
    else:
        reason = ngettext(
            "nearest to the printed settings, which have {count} other key",
            "nearest to the printed settings, which have {count} other keys",
            printer.other_keys,
        ).format(count=printer.other_keys)
    guessed = (printer.version,) if printer.other_keys else ()
    return ReleaseChoice(version=printer.version, reason=reason, certain=True, plausible=guessed)


def as_set(document: Document) -> tuple[Document, str, bool]:
    """What a user set, the trainer configuration that it rests on, and whether a recipe's too.

    A value that the release takes from another key is set where it is another one than that key has.
    """
    printer = printed_by(document)
    printed, defaults = _job(document.tree), dict(read_defaults(printer.version, printer.config).tree)
    set_by_user = _set(printed, defaults)
    paths = [path for path, _value in set_by_user]  # recipes are told by their keys as in any file
    recipe = None
    if printer.config in CONFIGS:
        recipe = recognise(paths, defaults, printer.version, known_elsewhere=releases_with)
    if recipe is not None and recipe.config(printer.config) is None:
        recipe = None
    # The configuration of a recipe has all of the recipe's keys; before 0.3 the trainer's has some of them.
    if recipe is not None and not all(contains(printed, path) for path in _leaf_paths(recipe.tree)):
        recipe = None
    if recipe is not None:
        set_by_user = [*_set(printed, merged(defaults, recipe.tree)), *_telling(set_by_user, recipe)]
    tree: Tree = {}
    for path, value in set_by_user:
        tree = merged(tree, nested(path, value))
    return replace(document, tree=tree, printed=False), printer.config, recipe is not None


def _telling(set_by_user: list[tuple[Path, Any]], recipe: Recipe) -> list[tuple[Path, Any]]:
    """The settings that only the recipe's configuration has, by which it is told."""
    return [(path, value) for path, value in set_by_user if contains(recipe.tree, path)]


def _leaf_paths(tree: Tree) -> Iterator[Path]:
    return (path for path, _value in leaves(tree) if path)


def _job(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if key not in _NOT_OF_A_JOB}


def _compared_leaves(tree: Tree, defaults: Tree, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Printed settings beside a release's, as deep as both are sections; ABSENT where one has none."""
    for key in tree.keys() | defaults.keys():
        here, value, raw = (*path, key), tree.get(key, ABSENT), defaults.get(key, ABSENT)
        if isinstance(value, dict) and isinstance(raw, dict) and value and raw:
            yield from _compared_leaves(value, raw, here)
        elif raw is ABSENT:
            yield from ((below, leaf, ABSENT) for below, leaf in leaves(value, here))
        else:
            yield here, value, raw


class _Differences(Struct, frozen=True, kw_only=True):
    """In what a printed configuration and one of a release differ."""

    printed_keys: int = 0  # that only the printed one has
    release_keys: int = 0  # that only the release has
    values: int = 0  # of keys that both have

    @property
    def distance(self) -> tuple[int, int]:
        return self.printed_keys * _ONLY_PRINTED + self.release_keys, self.values


def _difference_counts(tree: Tree, defaults: Tree) -> _Differences:
    """The leaves of ``_compared_leaves``, counted without paths: every release is compared."""
    printed_keys = values = 0
    release_keys = len(defaults.keys() - tree.keys())
    for key, value in tree.items():
        raw = defaults.get(key, ABSENT)
        if raw is ABSENT:
            printed_keys += _leaf_count(value)
        elif isinstance(value, dict) and isinstance(raw, dict) and value and raw:
            within = _difference_counts(value, raw)
            printed_keys += within.printed_keys
            release_keys += within.release_keys
            values += within.values
        elif not is_interpolation(raw):
            values += not same(value, raw)
    return _Differences(printed_keys=printed_keys, release_keys=release_keys, values=values)


def _leaf_count(value: Any) -> int:
    return sum(map(_leaf_count, value.values())) if isinstance(value, dict) and value else 1


def _set(tree: Tree, defaults: Tree) -> list[tuple[Path, Any]]:
    """The leaves that a user must have set, by path."""
    user_values: dict[Path, Any] = {}
    following: dict[Path, Any] = {}
    for path, value, raw in _compared_leaves(tree, defaults):
        if value is ABSENT or (raw is not ABSENT and same(raw, value)):
            continue
        if is_interpolation(raw):
            following[path] = value
        else:
            user_values[path] = value
    for _round in range(_CHAIN):
        settings = _laid(user_values, defaults)
        other = {path for path, value in following.items() if not _follows(settings, path, value)}
        # One that follows another such key may agree as soon as that one is set.
        first = {path for path in other if other.isdisjoint(settings.path_chain(dotted(path))[1:])} or other
        if not first:
            break
        user_values.update((path, following.pop(path)) for path in first)
    return sorted(user_values.items(), key=lambda item: item[0])


def _laid(user_values: dict[Path, Any], defaults: Tree) -> Settings:
    tree = defaults
    for path, value in user_values.items():
        tree = merged(tree, nested(path, value))
    return Settings(tree=tree, defaults=defaults, origins={}, default_origin=Origin(layer=Layer.DEFAULT))


def _follows(settings: Settings, path: Path, value: Any) -> bool:
    """Whether an interpolated default comes to a value by itself."""
    return same(_in_order(settings.get(dotted(path))), _in_order(value))


def _in_order(value: Any) -> Any:
    """A value with the keys of its sections in the order in which ``pprint`` writes them."""
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(child) for child in value] if isinstance(value, list) else value
