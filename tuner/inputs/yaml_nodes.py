"""Turns composed YAML nodes into values.

Scalars are read as OmegaConf reads them (``1e-6`` is a number, dates are text). Nothing is ever
constructed but null, booleans, numbers, text, lists and mappings.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import yaml

from tuner.errors import InputError, Location
from tuner.inputs.convert import has_too_large
from tuner.inputs.secrets import apart, taken_text, taken_value
from tuner.inputs.tree import Path, Tree, dotted, shown
from tuner.language import _
from tuner.nesting import MAX_DEPTH

MAX_VALUES = 100_000  # after aliases are expanded

_STANDARD_TAG = "tag:yaml.org,2002:"
_MERGE = _STANDARD_TAG + "merge"
# OmegaConf's own pattern: unlike YAML 1.1 it takes an exponent without a point or a sign for a float.
FLOAT = re.compile(
    r"""^(?:
     [-+]?[0-9]+(?:_[0-9]+)*\.[0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+)
    |\.[0-9]+(?:_[0-9]+)*(?:[eE][-+][0-9]+)?
    |[-+]?[0-9]+(?:_[0-9]+)*(?::[0-5]?[0-9])+\.[0-9_]*
    |[-+]?\.(?:inf|Inf|INF)
    |\.(?:nan|NaN|NAN))$""",
    re.X,
)
FLOAT_BEGINS = "-+0123456789."
_REPLACED = (_STANDARD_TAG + "float", _STANDARD_TAG + "timestamp")


_SCALARS: dict[str, Callable[[yaml.constructor.SafeConstructor, yaml.ScalarNode], Any]] = {
    "null": yaml.constructor.SafeConstructor.construct_yaml_null,
    "bool": yaml.constructor.SafeConstructor.construct_yaml_bool,
    "int": yaml.constructor.SafeConstructor.construct_yaml_int,
    "float": yaml.constructor.SafeConstructor.construct_yaml_float,
    "str": yaml.constructor.SafeConstructor.construct_yaml_str,
}
_WIDE = 2**31  # no line is broken


@cache
def loader() -> Any:
    """The C loader where PyYAML has it, with OmegaConf's idea of a scalar."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(_STANDARD_TAG + "float", FLOAT, list(FLOAT_BEGINS))
    return Loader


class TreeBuilder:
    """Turns composed nodes into values and records where keys stand."""

    def __init__(self, source: str) -> None:
        self.locations: dict[Path, Location] = {}
        self._source = source
        self._values = 0
        self._open: set[int] = set()
        self._construct = yaml.constructor.SafeConstructor()

    def location(self, node: yaml.Node) -> Location:
        """Where a node starts."""
        return Location(source=self._source, line=node.start_mark.line + 1, column=node.start_mark.column + 1)

    def value(self, node: yaml.Node, path: Path, key: yaml.Node) -> Any:
        """The value of a node; ``key`` is the node that a user would look at."""
        self._values += 1
        if self._values > MAX_VALUES:
            message = _(
                "the file holds more than {max_values:,} values once its aliases are expanded"
            ).format(max_values=MAX_VALUES)
            raise InputError(message, location=self.location(key), hint=_("use fewer aliases (*name)"))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise InputError(_("an alias stands inside what it repeats"), location=self.location(key))
        if len(self._open) >= MAX_DEPTH:
            message = _("nested deeper than {max_depth} levels once its aliases are expanded").format(
                max_depth=MAX_DEPTH
            )
            raise InputError(message, location=self.location(key), hint=_("use fewer aliases (*name)"))
        self._open.add(id(node))
        try:
            return (
                self._mapping(node, path)
                if isinstance(node, yaml.MappingNode)
                else self._sequence(node, path)
            )
        finally:
            self._open.discard(id(node))

    def _sequence(self, node: yaml.Node, path: Path) -> list[Any]:
        self._expect_tag(node, "seq")
        values = []
        for index, child in enumerate(node.value):
            place = (*path, str(index))
            self.locations[place] = self.location(child)
            value = self.value(child, place, child)
            values.append(taken_text(value) if isinstance(value, str) else value)
        return values

    def _mapping(self, node: yaml.MappingNode, path: Path) -> Tree:
        self._expect_tag(node, "map")
        tree: Tree = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                # Merged keys come first: whatever the mapping says itself wins, wherever '<<' stands.
                tree.update(self._merged(value_node, path))
        key_nodes: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            key = apart(self._key(key_node), key_nodes)
            place = self.location(key_node)
            if key in key_nodes:
                message = _("the key stands twice, first on line {line}").format(
                    line=key_nodes[key].start_mark.line + 1
                )
                raise InputError(
                    message, location=place, key=dotted((*path, key)), hint=_("remove one of the two")
                )
            key_nodes[key] = key_node
            here = (*path, key)
            self.locations[here] = place
            value = self.value(value_node, here, key_node)
            if key in tree:
                self._forget(here, tree[key], value)
            tree[key] = value if isinstance(value, (dict, list)) else taken_value(key, value)
        return tree

    def _merged(self, node: yaml.Node, path: Path) -> Tree:
        """The keys that ``<<`` brings; of several mappings the first wins."""
        tree: Tree = {}
        for source in reversed(node.value if isinstance(node, yaml.SequenceNode) else [node]):
            if not isinstance(source, yaml.MappingNode):
                raise InputError(
                    _("'<<' takes a mapping or a list of mappings"), location=self.location(source)
                )
            further = self.value(source, path, source)
            for key in tree.keys() & further.keys():
                self._forget((*path, key), tree[key], further[key])
            tree.update(further)
        return tree

    def _forget(self, path: Path, before: Any, now: Any) -> None:
        """Drop where the parts of a merged value stood that the one in its place does not have."""
        parts = _parts(now)
        for key, child in _parts(before).items():
            here = (*path, key)
            if key not in parts:
                self.locations.pop(here, None)
            self._forget(here, child, parts.get(key))

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag == _STANDARD_TAG + "null":
            kind = _("an empty key") if isinstance(node, yaml.ScalarNode) else _("a list or mapping as a key")
            raise InputError(
                _("{kind} is not allowed").format(kind=kind),
                location=self.location(node),
                hint=_("keys are plain words"),
            )
        self._scalar(node)  # refuses unknown tags
        return taken_text(str(node.value))

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        kind = node.tag.removeprefix(_STANDARD_TAG)
        read = _SCALARS.get(kind) if node.tag.startswith(_STANDARD_TAG) else None
        if read is None:
            raise self._unknown_tag(node)
        try:
            value = read(self._construct, node)
        except (ValueError, OverflowError, LookupError):
            raise InputError(
                _("{shown} is not a valid {kind}").format(shown=shown(node.value), kind=kind),
                location=self.location(node),
            ) from None
        if has_too_large(value):
            raise InputError(
                _("{shown} is a larger number than any setting takes").format(shown=shown(node.value)),
                location=self.location(node),
            )
        return value

    def _expect_tag(self, node: yaml.Node, kind: str) -> None:
        if node.tag != _STANDARD_TAG + kind:
            raise self._unknown_tag(node)

    def _unknown_tag(self, node: yaml.Node) -> InputError:
        tag = node.tag.replace(_STANDARD_TAG, "!!")
        message = _(
            "the tag {tag} is not allowed: a configuration holds plain values, and none of it is executed"
        ).format(tag=tag)
        return InputError(message, location=self.location(node), hint=_("remove the tag"))


def _parts(value: Any) -> dict[str, Any]:
    """The values below a mapping or a list, by their keys or numbers; none of a scalar."""
    if isinstance(value, list):
        return {str(index): child for index, child in enumerate(value)}
    return value if isinstance(value, dict) else {}


class _Dumper(yaml.SafeDumper):
    """Puts text in quotation marks that the reader would take for a number, and writes no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list(FLOAT_BEGINS))
_Dumper.add_representer(str, _text)


def on_one_line(value: Any) -> str:
    """A value in flow style."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, width=_WIDE, allow_unicode=True, sort_keys=False
    )
    return text.removesuffix("...\n").rstrip("\n")
