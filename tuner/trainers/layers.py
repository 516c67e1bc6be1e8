"""Lays documents and overrides on the defaults of a release, and notes the keys that it does not know."""

from collections.abc import Callable, Iterator
from typing import Any

from tuner.errors import InputError, Location, UnsupportedError
from tuner.inputs.interpolation import is_interpolation
from tuner.inputs.overrides import Override, OverrideKind
from tuner.inputs.secrets import shown_override, shown_value
from tuner.inputs.settings import Layer, Origin, UnknownKey
from tuner.inputs.tree import (
    Path,
    Tree,
    contains,
    dotted,
    leaves,
    lookup,
    merged,
    shown,
    split_key,
    without,
)
from tuner.inputs.yaml_file import Document
from tuner.language import _
from tuner.trainers.schema import Schema

_MOST_COMPARED = 25  # unknown keys that are compared with all that are known, and whose repair is tried
_REFUSED = (
    OverrideKind.CHANGE,
    OverrideKind.DELETE,
)  # how Hydra does not let a key be named that is not there


def refuse_group(override: Override) -> None:
    """Raise UnsupportedError for the choice of a config group that is not bundled."""
    message = _("the config group choice {choice} is not among the bundled defaults").format(
        choice=shown(override.text)
    )
    hint = _("give the composed configuration (.hydra/config.yaml of a run) instead")
    raise UnsupportedError(message, location=override.location, hint=hint)


class Layers:
    """The tree as it grows, and who set what.

    Args:
        tree: the defaults.
        schema: the keys that the release knows.
        check_group: accepts or refuses the choice of a config group, which sets no key.
    """

    def __init__(
        self, tree: Tree, schema: Schema, check_group: Callable[[Override], None] = refuse_group
    ) -> None:
        self._check_group = check_group
        self.tree = dict(tree)
        # Copied sections by their identity, held so that no other object comes to have it.
        self._own: dict[int, Tree] = {id(self.tree): self.tree}
        self.origins: dict[Path, Origin] = {}
        self._schema = schema
        self._suspects: dict[
            Path, tuple[OverrideKind | None, Location]
        ] = {}  # the kind is None for a file's key
        self._plain: dict[Path, tuple[Any, Location | None]] = {}  # values that stand in place of sections

    def add_document(self, document: Document, *, declares: bool = False) -> None:
        """Lay a file on what is there.

        Args:
            document: the file.
            declares: it is the configuration of a program, which reads the keys that the file adds.
        """
        for path, value in leaves(document.tree):
            if not path:
                continue
            location = document.location(*path)
            self._set(path, value, Origin(layer=Layer.FILE, location=location))
            if not self._schema.in_yaml(path) and not self._schema.in_dataclass(path):
                added = declares or self._schema.takes_any(path)
                self._suspects[path] = OverrideKind.ADD if added else None, location

    def add_override(self, override: Override) -> None:
        """Apply one argument of the command line."""
        path = split_key(override.key)
        if override.package is not None or "/" in override.key:
            self._check_group(override)
            return
        if override.kind is OverrideKind.DELETE:
            self._delete(path, override)
            return
        # Hydra lets nothing new in without '+', not even into a free-form section.
        needs_plus = override.kind is OverrideKind.CHANGE and not override.extends
        if (needs_plus or not self._schema.in_yaml(path)) and not contains(self.tree, path):
            self._suspects[path] = override.kind, override.location
        elif override.kind is OverrideKind.CHANGE:
            self._suspect_below(path, override)
        origin = Origin(layer=Layer.OVERRIDE, location=override.location, text=override.text)
        if isinstance(override.value, dict):
            self._plain.pop(path, None)
        for leaf, value in leaves(override.value, path):
            self._set(leaf, value, origin)

    def _suspect_below(self, path: Path, override: Override) -> None:
        """Note the keys of a dictionary that is laid on a section, which lets none in but its own."""
        if not (
            override.value and isinstance(override.value, dict) and isinstance(lookup(self.tree, path), dict)
        ):
            return
        for leaf, _value in leaves(override.value, path):
            takes_any = override.extends and self._schema.in_yaml(leaf)
            if not takes_any and not contains(self.tree, leaf):
                self._suspects[leaf] = override.kind, override.location

    def unknown(self) -> Iterator[UnknownKey]:
        """The keys to report, in the order of the input."""
        for position, (path, (kind, location)) in enumerate(self._suspects.items()):
            added = kind in (OverrideKind.ADD, OverrideKind.FORCE_ADD)
            if added and self._schema.in_dataclass(path):
                continue
            known_in = self._schema.known_in(path) if position < _MOST_COMPARED else ()
            nearest = self._spelled_otherwise(path, added=added)
            if nearest is None and position < _MOST_COMPARED:
                nearest = self._resembling(path, deliberate=added, moved=bool(known_in))
            if not added or nearest is not None:
                refused = kind in _REFUSED
                yield UnknownKey(
                    key=dotted(path), nearest=nearest, location=location, refused=refused, known_in=known_in
                )

    def _spelled_otherwise(self, path: Path, *, added: bool) -> str | None:
        """A key as Hydra takes it: with a ``+``, or with its dots between the parts."""
        schema = self._schema
        if schema.in_dataclass(path) or schema.in_yaml(path) or (not added and schema.takes_any(path)):
            return f"+{dotted(path)}"
        flat = split_key(".".join(path))  # a key that was written with its dots inside
        if len(flat) > len(path) and self._schema.in_yaml(flat):
            return dotted(flat)
        return None

    def _resembling(self, path: Path, *, deliberate: bool, moved: bool) -> str | None:
        """A known key that looks like it, as a user would type it."""
        nearest = self._schema.nearest(path, deliberate=deliberate, moved=moved)
        if nearest is None:
            return None
        return dotted(nearest) if self._schema.in_yaml(nearest) else f"+{dotted(nearest)}"

    def refuse_plain(self, is_read: Callable[[Path], bool]) -> None:
        """Refuse values that stand in place of sections: Hydra takes them, and what reads the keys fails.

        Args:
            is_read: whether something reads the keys of a section, which may be one that has none of its own.

        Raises:
            InputError: something does.
        """
        for path in filter(is_read, self._plain):
            self._refuse_plain(path)

    def _refuse_plain(self, path: Path) -> None:
        value, location = self._plain[path]
        first = next(iter(lookup(self._schema.tree, path)), None)
        hint = None if first is None else _("set its keys, such as {key}").format(key=dotted((*path, first)))
        raise InputError(
            _("is a section, not a value: got {value}").format(value=shown(value)),
            location=location,
            key=dotted(path),
            hint=hint,
        )

    def _set(self, path: Path, value: Any, origin: Origin) -> None:
        if self._plain:
            for above in filter(self._plain.__contains__, (path[:end] for end in range(1, len(path)))):
                if self._schema.is_section(above):
                    self._refuse_plain(above)  # which has no keys any more
            self._plain.pop(path, None)
        plain = value is not None and value != {} and not is_interpolation(value)
        if plain and self._schema.is_section(path, or_free=True):
            self._plain[path] = value, origin.location
        if value != {}:
            self._forget_below(path)
        self._put(path, value)
        self.origins.pop(path, None)  # the last to set a key is the last in the order
        self.origins[path] = origin

    def _put(self, path: Path, value: Any) -> None:
        """Lay a leaf on the tree.

        A section is copied once, so that the defaults of a release stay what they are: a copy for each of its
        keys would be quadratic, and most sections are never written to.
        """
        node: Any = self.tree
        for key in path[:-1]:
            below = node.get(key)
            if id(below) not in self._own:
                below = node[key] = dict(below) if isinstance(below, dict) else {}
                self._own[id(below)] = below
            node = below
        name = path[-1]
        node[name] = merged(node[name], value) if name in node else value

    def _forget_below(self, path: Path) -> None:
        if contains(self.tree, path) and isinstance(lookup(self.tree, path), dict):
            for below in [known for known in self.origins if known[: len(path)] == path]:
                del self.origins[below]

    def _delete(self, path: Path, override: Override) -> None:
        if not contains(self.tree, path):
            self._suspects[path] = override.kind, override.location
            return
        current = lookup(self.tree, path)
        if override.value is not None and override.value != current:
            known = self._schema.has(path)
            hint = _("write ~{key} to delete it whatever it is").format(key=override.key)
            message = _("{override} deletes nothing: the value is {current}").format(
                override=shown(shown_override(override.text, known=known)),
                current=shown(shown_value(override.key, current, known=known)),
            )
            raise InputError(message, location=override.location, key=override.key, hint=hint)
        self._forget_below(path)
        self._plain = {plain: it for plain, it in self._plain.items() if plain[: len(path)] != path}
        self.origins.pop(path, None)
        suspects = [path]
        if isinstance(current, dict):
            suspects = [suspect for suspect in self._suspects if suspect[: len(path)] == path]
        for suspect in self._suspects.keys() & suspects:
            if self._suspects[suspect][0] not in _REFUSED:  # else Hydra has stopped there
                del self._suspects[suspect]
        self.tree = without(self.tree, path)
