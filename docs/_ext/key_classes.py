"""``.. key-counts::``, ``.. key-reasons:: KIND`` and ``.. key-list::``: what the estimate makes of each key.

A class is called by a letter and a number, which are the same in every language.
"""

from collections.abc import Iterable
from html import escape
from itertools import groupby

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from kept_answers import cached_answer
from tables import table
from tuner.trainers.key_facts import KeyClass, KeyKind
from tuner.trainers.verl import catalogue
from tuner.trainers.verl.releases import BUNDLED

_LETTERS = {KeyKind.MODELLED: "M", KeyKind.NO_EFFECT: "E", KeyKind.NOT_MODELLED: "N"}
_DEEP = "actor_rollout_ref"  # a section whose own sections are shown apart


@cached_answer(words=False)
def classes(release: str) -> tuple[tuple[str, KeyClass], ...]:
    """The classes of a release, each with what it is called."""
    listed = []
    for kind, members in groupby(catalogue.key_classes(release), key=lambda row: row.kind):
        letter = _LETTERS[kind]
        listed += [
            (letter if kind is KeyKind.MODELLED else f"{letter}{n}", row) for n, row in enumerate(members, 1)
        ]
    return tuple(listed)


class KeyCounts(SphinxDirective):
    """How many keys of each release are of which kind."""

    def run(self) -> list[nodes.Node]:
        """One row per release, the newest first."""
        header = ["Release", "Keys", "Modelled", "No effect", "Not modelled"]
        return table(self, header, [_counts(release) for release in reversed(BUNDLED)])


def _counts(release: str) -> list[str]:
    counts = dict.fromkeys(KeyKind, 0)
    for _, row in classes(release):
        counts[row.kind] += len(row.keys)
    return [release, *(f"{count:,}" for count in (sum(counts.values()), *counts.values()))]


class KeyReasons(SphinxDirective):
    """The classes of one kind."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """One row per class, with its reason and how many keys of all releases it has."""
        kind = KeyKind(self.arguments[0])
        everywhere = _keys_by_class()
        rows = [
            [f"``{name}``", row.name, row.reason, *_missing(row), str(len(everywhere.get(name, ())))]
            for name, row in classes(BUNDLED[-1])
            if row.kind is kind
        ]
        if kind is KeyKind.NO_EFFECT:
            return table(
                self, ["Class", "What", "Why", "Keys"], rows, prose=["What", "Why"], widths=[8, 26, 58, 8]
            )
        header = ["Class", "Left out", "What is not counted", "Missing", "Keys"]
        return table(self, header, rows, prose=header[1:4], widths=[8, 26, 44, 14, 8])


def _missing(row: KeyClass) -> list[str]:
    return [] if row.affects is None else [row.affects.value]


def _keys_by_class() -> dict[str, set[str]]:
    keys: dict[str, set[str]] = {}
    for release in BUNDLED:
        for name, row in classes(release):
            keys.setdefault(name, set()).update(row.keys)
    return keys


class KeyList(SphinxDirective):
    """Every key of every release with its class, by section; each section unfolds."""

    def run(self) -> list[nodes.Node]:
        """One table per section."""
        listed: list[nodes.Node] = []
        spans = _spans()
        for section, keys in groupby(sorted(spans, key=lambda key: (_section(key), key)), key=_section):
            rows = [[f"``{key}``", spans[key]] for key in keys]
            summary = f"<summary><code>{escape(section)}</code> ({len(rows)})</summary>"
            listed.append(nodes.raw("", f"<details>{summary}", format="html"))
            listed += table(self, ["Key", "Class"], rows, widths=[60, 40])
            listed.append(nodes.raw("", "</details>", format="html"))
        return listed


def _section(key: str) -> str:
    names = key.split(".")
    return ".".join(names[:2] if names[0] == _DEEP and len(names) > 2 else names[:1])


def _spans() -> dict[str, str]:
    """The class of each key, with the releases where it is not the same in all."""
    by_key: dict[str, list[tuple[str, str]]] = {}
    for release in BUNDLED:
        for name, row in classes(release):
            for key in row.keys:
                by_key.setdefault(key, []).append((name, release))
    return {key: _joined(entries) for key, entries in by_key.items()}


def _joined(entries: Iterable[tuple[str, str]]) -> str:
    spans = []
    for name, members in groupby(entries, key=lambda entry: entry[0]):
        releases = [release for _, release in members]
        span = releases[0] if len(releases) == 1 else f"{releases[0]}–{releases[-1]}"
        spans.append(f"{name} {span}")
    return ", ".join(spans)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("key-counts", KeyCounts)
    app.add_directive("key-reasons", KeyReasons)
    app.add_directive("key-list", KeyList)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
