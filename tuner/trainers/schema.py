"""Which keys a release knows, and which known key a user may have meant."""

from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher, get_close_matches
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from tuner.inputs.interpolation import is_interpolation
from tuner.inputs.tree import Path, Tree, dotted, leaves

NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_NAME_SIMILARITY = 0.8  # of the last part of a key
_KEY_SIMILARITY = 0.85  # of a whole key whose sections differ
_DELIBERATE_SIMILARITY = 0.9  # of a key that the user marked as new with '+'


_REMEMBERED = 1024  # unknown keys of one release: many configurations have the same ones


def nowhere(_path: Path) -> tuple[str, ...]:
    """The releases of a trainer whose other releases are not looked at."""
    return ()


def never(_path: Path) -> bool:
    """A trainer of which nobody says that it hands a section on."""
    return False


class Schema:
    """The keys of one release's trainer configuration.

    Args:
        tree: the configuration before a user changes anything.
        fields: those of the dataclass that a section's ``_target_`` names.
        main_sections: what a shortened key usually means.
        known_in: the releases that have exactly a key.
        takes_any: whether the section that holds a key is handed on whole, with whatever stands in it.
    """

    def __init__(
        self,
        tree: Mapping[str, Any],
        fields: Mapping[str, tuple[str, ...]] = NONE,
        main_sections: tuple[str, ...] = (),
        known_in: Callable[[Path], tuple[str, ...]] = nowhere,
        takes_any: Callable[[Path], bool] = never,
    ) -> None:
        self.tree: Tree = dict(tree)
        self.takes_any = takes_any
        self.known_in = known_in
        self._fields = fields
        self._main_sections = main_sections
        self._nearest: dict[tuple[Path, bool, bool], Path | None] = {}

    def in_yaml(self, path: Path) -> bool:
        """Whether the composed configuration has the key, or a free-form section that may hold it."""
        node, rest = self._descend(path)
        return not rest or node is None or node == {} or is_interpolation(node)

    def in_dataclass(self, path: Path) -> bool:
        """Whether the key is a field that the section's dataclass has and its YAML leaves out."""
        node, rest = self._descend(path)
        return bool(rest) and isinstance(node, dict) and rest[0] in self._fields_of(node)

    def has(self, path: Path) -> bool:
        """Whether the release itself has the key: what a free-form section may hold is the user's."""
        node, rest = self._descend(path)
        return not rest or (len(rest) == 1 and isinstance(node, dict) and rest[0] in self._fields_of(node))

    def is_section(self, path: Path, *, or_free: bool = False) -> bool:
        """Whether the configuration has a section with keys of its own at ``path``, or one of free form."""
        node, rest = self._descend(path)
        return not rest and isinstance(node, dict) and (or_free or bool(node))

    def nearest(self, path: Path, *, deliberate: bool = False, moved: bool = False) -> Path | None:
        """The known key that ``path`` most likely means.

        Args:
            path: an unknown key.
            deliberate: the user marked the key as new; only a sibling that differs by a slip counts.
            moved: another release has the key, so its name is no slip; only keys of the same name count.
        """
        question = path, deliberate, moved
        if question not in self._nearest:
            if len(self._nearest) >= _REMEMBERED:
                self._nearest.clear()
            self._nearest[question] = self._resembling(path, deliberate=deliberate, moved=moved)
        return self._nearest[question]

    def _resembling(self, path: Path, *, deliberate: bool, moved: bool) -> Path | None:
        if deliberate:
            siblings = {known[-1]: known for known in self._leaf_paths if known[:-1] == path[:-1]}
            close = get_close_matches(path[-1], siblings, n=1, cutoff=_DELIBERATE_SIMILARITY)
            return siblings[close[0]] if close else None
        endings = [known for known in self._leaf_paths if known[-len(path) :] == path]
        if endings:
            return min(endings, key=lambda known: (known[0] not in self._main_sections, len(known)))
        names = [path[-1]] if path[-1] in self._by_name else []
        if not moved:
            names += _close(path[-1], tuple(self._by_name))
        named = [known for name in dict.fromkeys(names) for known in self._by_name[name]]
        rated = [
            (_shared(path, known), path[-1] == known[-1], self.in_yaml(known), _ratio(path, known), known)
            for known in named
        ]
        # All sections must agree, or the key as a whole must look alike.
        alike = [rating for rating in rated if rating[0] == len(path) - 1 or rating[3] >= _KEY_SIMILARITY]
        return max(alike)[-1] if alike else None

    def _fields_of(self, section: Tree) -> tuple[str, ...]:
        return self._fields.get(str(section.get("_target_")), ())

    def _descend(self, path: Path) -> tuple[object, Path]:
        """The deepest node on the way to ``path``, and the keys that it lacks."""
        node: object = self.tree
        for depth, key in enumerate(path):
            if not isinstance(node, dict) or key not in node:
                return node, path[depth:]
            node = node[key]
        return node, ()

    @cached_property
    def _leaf_paths(self) -> tuple[Path, ...]:
        return tuple(path for path in self._walk() if path[-1] != "_target_")

    def _walk(self) -> Iterator[Path]:
        yield from (path for path, _ in leaves(self.tree))
        sections = {path[:length] for path, _ in leaves(self.tree) for length in range(1, len(path))}
        for section in sorted(sections):
            yield section
            node, _ = self._descend(section)
            if isinstance(node, dict):
                yield from ((*section, name) for name in self._fields_of(node) if name not in node)

    @cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        by_name: dict[str, list[Path]] = {}
        for path in self._leaf_paths:
            by_name.setdefault(path[-1], []).append(path)
        return by_name


@lru_cache(maxsize=256)  # a configuration is read again with each advice
def _close(name: str, names: tuple[str, ...]) -> list[str]:
    return get_close_matches(name, names, n=3, cutoff=_NAME_SIMILARITY)


def _shared(path: Path, known: Path) -> int:
    """How many of the sections of ``path`` are on the way to ``known``."""
    return sum(section in known[:-1] for section in path[:-1])


def _ratio(path: Path, known: Path) -> float:
    return SequenceMatcher(None, dotted(path), dotted(known)).ratio()
