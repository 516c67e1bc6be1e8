"""The settings of one configuration as ``tuner config`` shows them: each with where it comes from."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tuner.inputs.resolution import ABSENT, Resolved, deleted, resolved
from tuner.inputs.secrets import hidden_value, is_carried
from tuner.inputs.settings import Settings
from tuner.inputs.tree import dotted
from tuner.inputs.user_input import OpenArgument, UserInput, with_shown_lost
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.protocol import Loaded


class SettingsView(Struct, frozen=True, kw_only=True):
    """A configuration with all values that can be known, and no secret that is not carried."""

    given: UserInput
    release: ReleaseChoice
    loaded: Loaded
    known: tuple[Resolved, ...]  # every leaf, without those that are not known
    unknown: tuple[
        tuple[str, OpenArgument], ...
    ]  # keys, with the argument of the script that leaves them open
    deleted: tuple[str, ...]

    @property
    def differing(self) -> tuple[Resolved, ...]:
        """The settings whose value is another than the release's own."""
        return tuple(leaf for leaf in self.known if leaf.differs)

    @property
    def number(self) -> int:
        """How many settings there are."""
        return len(self.known) + sum(bool(key) for key, _argument in self.unknown)

    def open_arguments(self) -> Iterator[tuple[OpenArgument, tuple[str, ...]]]:
        """The arguments of the script that leave settings open, each with the keys that follow its own."""
        for argument in dict.fromkeys(argument for _key, argument in self.unknown):
            keys = (key for key, of_key in self.unknown if of_key == argument and key != argument.key)
            yield argument, tuple(keys)

    def shown(self, *, every: bool) -> tuple[Resolved, ...]:
        """All settings that are known, or those that differ."""
        return self.known if every else self.differing


def settings_view(given: UserInput, release: ReleaseChoice, loaded: Loaded) -> SettingsView:
    """What a configuration says on a release."""
    leaves = resolved(loaded.settings)
    unknown = _unknown(given.unsettled, leaves)
    open_keys = {key for key, _argument in unknown}
    return SettingsView(
        given=with_shown_lost(given, loaded.settings.shown_override),
        release=release,
        loaded=loaded,
        known=tuple(_shown(leaf, loaded.settings) for leaf in leaves if leaf.key not in open_keys),
        unknown=unknown,
        deleted=tuple(map(dotted, deleted(loaded.settings))),
    )


def _unknown(
    unsettled: Sequence[OpenArgument], leaves: Sequence[Resolved]
) -> tuple[tuple[str, OpenArgument], ...]:
    """The keys that the script leaves open, then those that follow them by themselves.

    A key that a later argument settles is none of them.
    """
    set_later = {leaf.key for leaf in leaves if leaf.by_user}
    first = [(argument.key, argument) for argument in unsettled if argument.key not in set_later]
    by_key = dict(first)
    following = [
        (leaf.key, by_key[source])
        for leaf in leaves
        for source in leaf.follows
        if source in by_key and not leaf.by_user and leaf.key not in by_key
    ]
    return (*first, *dict(following).items())


def _shown(leaf: Resolved, settings: Settings) -> Resolved:
    """A setting without its secret, unless what is read is written to be run again."""
    if is_carried():
        return leaf
    default = leaf.default if leaf.default is ABSENT else hidden_value(leaf.key, leaf.default)
    return replace(leaf, value=settings.shown(leaf.key, leaf.value), default=default)
