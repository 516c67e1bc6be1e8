"""Settings with all interpolations resolved: what differs from the release's own, and how to say so again."""

from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta, Struct

from tuner.enumeration import Enum
from tuner.errors import Location
from tuner.inputs.interpolation import is_interpolation
from tuner.inputs.override_syntax import has_name, override, same
from tuner.inputs.settings import Layer, Origin, Settings
from tuner.inputs.tree import Path, contains, dotted, leaves, lookup


class Absence(Enum):
    """What stands for a value that is not there, and is published as null; no value is the same."""

    ABSENT = None


ABSENT = Absence.ABSENT


class Resolved(Struct, frozen=True, kw_only=True):
    """One leaf of the settings beside what the release has there by itself."""

    path: Path
    value: Annotated[Any, Meta(description="resolved; what is a secret is the word hidden")]
    # ABSENT where there is none
    default: Annotated[
        Any, Meta(description="the release's own value, resolved; null where it has no such key")
    ]
    origin: Origin
    by_user: bool  # set in a file or by an override, to whatever value
    follows: Annotated[
        tuple[str, ...], Meta(description="the keys that the release takes the value from by itself")
    ] = ()

    @property
    def key(self) -> str:
        """The dotted key."""
        return dotted(self.path)

    @property
    def differs(
        self,
    ) -> Annotated[bool, Meta(description="from what the release has there by itself")]:
        """Whether the value is another than the release's own."""
        return not same(self.value, self.default)

    @property
    def known_to_release(self) -> bool:
        """Whether the release has the key."""
        return self.default is not ABSENT

    @property
    def layer(self) -> Layer:
        """Where the value was set."""
        return self.origin.layer

    @property
    def location(self) -> Location | None:
        """The place where it was set; None where nobody set it."""
        return self.origin.location


def resolved(settings: Settings) -> tuple[Resolved, ...]:
    """Every leaf of the settings, in the order of the release's configuration."""
    released = _leaves(settings.released)
    return tuple(_resolved(settings, path, value, released) for path, value in _leaves(settings).items())


def deleted(settings: Settings) -> tuple[Path, ...]:
    """The highest keys of the release's configuration that the settings no longer have."""
    return tuple(_deleted(settings.defaults, settings.tree, ()))


def to_say(settings: Settings) -> Iterator[tuple[Path, Any]]:
    """What must be set over the release's defaults to get the same settings.

    A key that follows another one by itself is not among them. One that the user set is, even to the
    release's own value, where its default follows another key: that one may have another value now.
    """
    for leaf in resolved(settings):
        if not leaf.by_user:
            continue
        raw = lookup(settings.defaults, leaf.path) if contains(settings.defaults, leaf.path) else ABSENT
        if is_interpolation(raw) or not same(raw, leaf.value):
            yield leaf.path, leaf.value


def overrides(settings: Settings) -> tuple[str, ...]:
    """The fewest overrides that turn the release's defaults into these settings."""
    added: dict[Path, None] = {}
    texts = []
    for path, value in to_say(settings):
        end = next((end for end in range(len(path)) if not has_name(path[end : end + 1])), None)
        if end is None:
            mark = "" if contains(settings.defaults, path) else "+"
            texts.append(override(dotted(path), value, mark))
        elif end > 0:  # the section of the first key that Hydra cannot name, as a whole
            added[path[:end]] = None
    texts += [override(dotted(path), settings.get(dotted(path)), "++") for path in added]
    return (*(f"~{dotted(path)}" for path in deleted(settings)), *texts)


def _resolved(settings: Settings, path: Path, value: Any, released: dict[Path, Any]) -> Resolved:
    default = released.get(path, ABSENT)
    origin = _set_by(settings, path)
    raw = lookup(settings.tree, path) if contains(settings.tree, path) else None
    follows = settings.path_chain(dotted(path))[1:] if origin is None and is_interpolation(raw) else ()
    return Resolved(
        path=path,
        value=value,
        default=default,
        origin=origin or settings.default_origin,
        by_user=origin is not None,
        follows=tuple(map(dotted, follows)),
    )


def _set_by(settings: Settings, path: Path) -> Origin | None:
    """Who set a key, or the section that it comes from by an interpolation."""
    ends = (path[:end] for end in range(len(path), 0, -1))
    return next((settings.origins[end] for end in ends if end in settings.origins), None)


def _leaves(settings: Settings) -> dict[Path, Any]:
    return {path: value for path, value in leaves(settings.resolved()) if path}


def _deleted(defaults: Any, tree: Any, path: Path) -> Iterator[Path]:
    if not isinstance(defaults, dict) or not isinstance(tree, dict):
        return
    for key, child in defaults.items():
        if key not in tree:
            yield (*path, key)
        else:
            yield from _deleted(child, tree[key], (*path, key))
