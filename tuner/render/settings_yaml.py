"""Settings as a YAML file that is read back to the same settings, each with the place that it comes from."""

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.inputs.resolution import to_say
from tuner.inputs.tree import Path, dotted, split_key
from tuner.inputs.yaml_nodes import on_one_line
from tuner.language import _
from tuner.render.settings_text import not_known, title
from tuner.render.settings_view import SettingsView
from tuner.render.terminal import plain
from tuner.render.words import place

_INDENT = "  "


def settings_yaml(view: SettingsView, *, every: bool) -> str:
    """The settings as YAML.

    Args:
        view: the settings.
        every: all of them; otherwise what must be set over the release's own to get the same, and the keys by
            which a file is laid on the same configuration of the release.
    """
    keys = {dotted(path) for path, _value in to_say(view.loaded.settings)}.union(view.loaded.base.keys)
    tree: dict[str, Any] = {}
    comments: dict[Path, str] = {}
    for leaf in view.known:
        if every or leaf.key in keys:
            _place(tree, leaf.path, leaf.value)
            if leaf.by_user and leaf.origin.location is not None:
                comments[leaf.path] = place(leaf.origin.location)
    for key in view.deleted:
        _place(tree, split_key(key), None)
        comments[split_key(key)] = _("deleted by an override")
    head = [title(view), *not_known(view)]
    return "\n".join([*(f"# {plain(line)}" for line in head), *_lines(tree, comments, ())])


def _place(tree: dict[str, Any], path: Path, value: Any) -> None:
    """Put a value where it belongs; the sections above it are made."""
    *above, name = path
    for key in above:
        tree = tree.setdefault(key, {})
    tree[name] = value


def _lines(node: Mapping[str, Any], comments: Mapping[Path, str], path: Path) -> Iterator[str]:
    for key, value in node.items():
        here = (*path, key)
        head = f"{_INDENT * len(path)}{on_one_line(key)}:"
        comment = f"  # {plain(comments[here])}" if here in comments else ""
        if isinstance(value, dict) and value:
            yield head + comment
            yield from _lines(value, comments, here)
        else:
            yield f"{head} {on_one_line(value)}{comment}"
