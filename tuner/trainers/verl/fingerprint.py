"""Tells a release by its keys: which one a configuration is most like, and which have those of a launch."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from tuner.inputs.override_syntax import same
from tuner.inputs.tree import Path, Tree, contains, dotted, leaves, lookup, without
from tuner.language import _
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.defaults import PPO_CONFIGS, has_config, read_defaults
from tuner.trainers.verl.releases import BUNDLED
from tuner.trainers.verl.schema import releases_with
from tuner.trainers.verl.service_keys import reading
from tuner.versions import at_least

_COMPLETE = 0.9  # share of a release's keys that a composed configuration has at least
_MOST = 0.5  # share that a copy of them has, which may be much older
_OF_ANOTHER = 2  # keys that a commit between two releases hardly has, so that they are of another release
_NAMED = 3  # keys in one message
_FEWEST = 120  # settings of a composed configuration; verl 0.3 has 170
_FEWEST_OF_FINE_TUNING = 40  # verl 0.4.1 has 56


class Likeness(Struct, frozen=True, kw_only=True, dict=True):
    """A bundled release beside a composed configuration."""

    version: str
    tree: Tree  # the configuration
    released: Tree  # the release's
    oldest: str = ""  # older ones were left aside, by the code beside it
    alike: tuple[str, ...] = ()  # releases that differ from it in as few keys, oldest first

    @cached_property
    def lacking(self) -> tuple[Path, ...]:
        """The keys of the release that the configuration lacks."""
        return tuple(path for path, _value in leaves(self.released) if not contains(self.tree, path))

    @cached_property
    def added(self) -> tuple[Path, ...]:
        """The keys that the release lacks."""
        return tuple(path for path, _value in leaves(self.tree) if not contains(self.released, path))

    @cached_property
    def changed(self) -> tuple[Path, ...]:
        """The keys with another value."""
        return tuple(
            path
            for path, value in leaves(self.released)
            if contains(self.tree, path) and not same(value, lookup(self.tree, path))
        )

    @property
    def plausible(self) -> tuple[str, ...]:
        """The releases that its keys are those of as much as of this one."""
        return self.alike or (self.version,)

    @property
    def is_sure(self) -> bool:
        """Whether its keys are exactly those of this release, and of no other one."""
        return not (self.lacking or self.added) and len(self.plausible) == 1

    @property
    def is_complete(self) -> bool:
        """Whether the configuration is a composed one, not a few settings to be laid on defaults."""
        return self._share_of_keys >= _COMPLETE

    @property
    def shares_most(self) -> bool:
        """Whether the configuration has most of the release's keys."""
        return self._share_of_keys >= _MOST

    @property
    def _share_of_keys(self) -> float:
        total = sum(1 for _leaf in leaves(self.released))
        return 1 - len(self.lacking) / total

    def differences(self) -> str:
        """What differs, in a few words with the first keys of each kind."""
        kinds = (
            (_("lacks {keys}"), self.lacking),
            (_("adds {keys}"), self.added),
            (_("changes {keys}"), self.changed),
        )
        parts = [text.format(keys=_listed(paths)) for text, paths in kinds if paths]
        return _("; ").join(parts) if parts else _("no key differs")


class Likenesses:
    """What :func:`composed_like` says of a document, found out once however often it is laid on defaults."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str, str], tuple[Tree, Likeness | None]] = {}

    def of(self, tree: Tree, config: str, oldest: str = "") -> Likeness | None:
        """The release that the document is most like; None of one that is not composed."""
        known = self._known.get((id(tree), config, oldest))
        if known is None or known[0] is not tree:
            known = self._known[id(tree), config, oldest] = (tree, composed_like(tree, config, oldest))
        return known[1]


def composed_like(tree: Tree, config: str, oldest: str = "") -> Likeness | None:
    """The release that a configuration is most like; None of one that is not composed but a few settings."""
    fewest = _FEWEST if config in PPO_CONFIGS else _FEWEST_OF_FINE_TUNING
    if sum(1 for _leaf in leaves(tree)) < fewest:
        return None
    likeness = likest(tree, config)
    if not likeness.is_complete:
        return None
    return likest(tree, config, oldest=oldest) if oldest else likeness


def likest(tree: Tree, config: str, unread: tuple[Path, ...] = (), oldest: str = "") -> Likeness:
    """The bundled release whose defaults are most like a composed configuration, the newest of equals.

    Keys count first: users change values, and releases change keys.

    Args:
        tree: the configuration, interpolations kept.
        config: which of a release's trainer configurations it is held against.
        unread: sections that are held against nothing: a release with few keys there is no more like it.
        oldest: release that its code can be of; empty where nothing tells.
    """
    tree = _without(tree, unread)
    likenesses = [
        Likeness(
            version=version, tree=tree, released=_without(dict(read_defaults(version, config).tree), unread)
        )
        for version in reversed(BUNDLED)
        if has_config(version, config)
    ]
    likeness = _likest(likenesses)
    if not oldest or at_least(likeness.version, oldest):
        return likeness
    return replace(_likest([one for one in likenesses if at_least(one.version, oldest)]), oldest=oldest)


def as_likely(
    guess: ReleaseChoice,
    keys: Iterable[Path],
    configs: tuple[str, ...],
    required: Iterable[Path] = (),
    program: str = "",
) -> ReleaseChoice:
    """The guess, with those of the other releases alone that lack no more of the keys than the guessed one.

    A guess that other packages bound is the nearest of those that lack fewest. The newest release of all
    stays, since a launch may be one to be brought up to it, unless Hydra refuses keys there that another one
    has, all of them: the launch ran there.

    Args:
        guess: a release that nothing names.
        keys: that the user sets, without those that are added to the release's own.
        configs: of verl, any of which may have them.
        required: those of them without which Hydra refuses to start.
        program: the module that the launch starts, which reads them.
    """
    lacks = _lacked(guess.plausible, keys, configs, program)
    needs = _lacked(BUNDLED, required, configs, program)
    having = [other for other in guess.plausible if not needs[other]]
    if guess.version == BUNDLED[-1]:
        if not having or not needs[guess.version]:
            return _narrowed(guess, lacks, needs)
        reason = _("the newest that has all keys of the launch")
        return replace(guess, version=_nearest(guess, having), reason=reason, plausible=tuple(having))
    if min(lacks.values()) < lacks[guess.version]:
        fewest = [other for other, count in lacks.items() if count == min(lacks.values())]
        reason = _("{reason}; of those that go with it the nearest with the launch's keys")
        reason = reason.format(reason=guess.reason)
        guess = replace(guess, version=_nearest(guess, fewest), reason=reason)
    return _narrowed(guess, lacks, needs)


def having_keys(guess: ReleaseChoice, required: Iterable[Path], configs: tuple[str, ...]) -> tuple[str, ...]:
    """The releases with all keys of a launch, where those that go with other packages lack several of them.

    Keys weigh more than what is installed: Hydra refuses them, and a release may run with other versions than
    it asks for.

    Args:
        guess: among the releases that go with other packages.
        required: the keys without which Hydra refuses to start.
        configs: of verl, any of which may have them.

    Returns:
        Oldest first; empty where one of the guess may have them.
    """
    lacks = _lacked(BUNDLED, required, configs)
    if min(lacks[version] for version in guess.plausible or (guess.version,)) < _OF_ANOTHER:
        return ()
    return tuple(version for version, count in lacks.items() if not count)


def running(required: Iterable[Path], configs: tuple[str, ...], program: str) -> tuple[str, ...]:
    """The releases that refuse the fewest keys of a launch, oldest first: it ran in one of them.

    Args:
        required: the keys without which Hydra refuses to start.
        configs: of verl, any of which may have them.
        program: the module that the launch starts, which reads them.
    """
    lacks = _lacked(BUNDLED, required, configs, program)
    return tuple(version for version, count in lacks.items() if count == min(lacks.values()))


def _narrowed(guess: ReleaseChoice, lacks: Mapping[str, int], needs: Mapping[str, int]) -> ReleaseChoice:
    """The guess among those that lack no more of the keys; where it lacks some, among those with all, too."""
    likely = {other for other, count in lacks.items() if count <= lacks[guess.version]}
    if needs[guess.version]:
        likely.update(other for other, count in needs.items() if not count)
    return replace(guess, plausible=tuple(other for other in BUNDLED if other in likely))


def _lacked(
    versions: Iterable[str], keys: Iterable[Path], configs: tuple[str, ...], program: str = ""
) -> dict[str, int]:
    """How many of the keys each release lacks or has without reading them, of those that any has."""
    lacks = dict.fromkeys(versions, 0)
    for key in keys:
        having = reading(releases_with(key, configs), key, program)
        for version in lacks if having else ():  # what no release has tells nothing
            lacks[version] += version not in having
    return lacks


def in_doubt(choice: ReleaseChoice, required: Iterable[Path], configs: tuple[str, ...]) -> ReleaseChoice:
    """The release that something around the launch names, in doubt where others alone have the launch's keys.

    Args:
        choice: the release.
        required: the keys of the launch without which Hydra refuses to start.
        configs: of verl, any of which may have them.
    """
    lacks = _lacked(BUNDLED, required, configs)
    if choice.plausible or not lacks.get(choice.version):
        return choice
    plausible = tuple(other for other, count in lacks.items() if not count or other == choice.version)
    return replace(choice, plausible=plausible, doubted=True) if len(plausible) > 1 else choice


def with_neighbours(
    guess: ReleaseChoice, named: ReleaseChoice, required: Iterable[Path], configs: tuple[str, ...]
) -> ReleaseChoice:
    """The guess of what lies between releases, among all of these where it lacks keys of the launch.

    What lies between them may have the keys of each.

    Args:
        guess: of them, by the launch's keys.
        named: by something around the launch.
        required: the keys of the launch without which Hydra refuses to start.
        configs: of verl, any of which may have them.
    """
    lacks = _lacked(named.plausible, required, configs)
    return replace(guess, plausible=named.plausible if lacks.get(guess.version) else guess.plausible)


def _nearest(guess: ReleaseChoice, versions: Sequence[str]) -> str:
    place = guess.plausible.index
    return min(versions, key=lambda version: abs(place(version) - place(guess.version)))


def _likest(likenesses: Sequence[Likeness]) -> Likeness:
    keys = {id(one): len(one.lacking) + len(one.added) for one in likenesses}
    fewest = min(keys.values())
    alike = [one for one in likenesses if keys[id(one)] == fewest]
    likest = min(alike, key=lambda likeness: len(likeness.changed))
    return replace(likest, alike=tuple(one.version for one in reversed(alike)))


def _without(tree: Tree, sections: tuple[Path, ...]) -> Tree:
    for section in sections:
        if section and contains(tree, section):
            tree = without(tree, section)
    return tree


def _listed(paths: tuple[Path, ...]) -> str:
    names = _(", ").join(dotted(path) for path in paths[:_NAMED])
    further = len(paths) - _NAMED
    return names if further <= 0 else _("{names} and {further} more").format(names=names, further=further)
