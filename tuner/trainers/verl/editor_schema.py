"""A JSON Schema of the configurations that a release of verl takes, from which an editor completes keys."""

from typing import Any

from tuner.inputs.tree import Path, split_key
from tuner.trainers.key_facts import KeyKind
from tuner.trainers.verl.coverage.tables import of_release
from tuner.trainers.verl.defaults import read_defaults, trainer_configs

_TYPES = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
_DEEPEST = 12  # sections within sections; verl has 6


def input_schema(version: str) -> dict[str, Any]:
    """The keys of all configurations of a bundled release, with their defaults and what tuner makes of them.

    A key that is not known stays allowed, since verl hands sections on to engines: ``tuner check`` says
    which keys the release does not know.
    """
    described = _descriptions(version)
    sections: dict[str, Any] = {}
    for config in reversed(trainer_configs(version)):  # where several have a key, the default is that of FSDP
        _add(sections, read_defaults(version, config).tree, (), described)
    return {"title": f"verl {version}", "type": "object", "properties": sections}


def _add(properties: dict[str, Any], tree: Any, above: Path, described: dict[Path, str]) -> None:
    for name, value in tree.items():
        path = (*above, name)
        if isinstance(value, dict) and value and len(path) < _DEEPEST:
            section = properties.get(name)
            if section is None or "properties" not in section:
                section = properties[name] = {"type": ["object", "null", "string"], "properties": {}}
            _add(section["properties"], value, path, described)
        else:
            properties[name] = _leaf(value, described.get(path, ""))


def _leaf(value: Any, description: str) -> dict[str, Any]:
    """A key with a value: of the default's type, null, or a string, as an interpolation is one."""
    leaf: dict[str, Any] = {"default": value}
    if description:
        leaf["description"] = description
    if (kind := _TYPES.get(type(value))) is not None and not _is_computed(value):
        leaf["type"] = list(dict.fromkeys((kind, "null", "string")))
    return leaf


def _is_computed(value: Any) -> bool:
    return isinstance(value, str) and (value.startswith("${") or value == "???")


def _descriptions(version: str) -> dict[Path, str]:
    words = {
        KeyKind.MODELLED: "Counted by tuner's estimate of memory and seconds.",
        KeyKind.NO_EFFECT: "Without effect on memory or seconds: {reason}",
        KeyKind.NOT_MODELLED: "Not counted by tuner's estimate: {reason}",
    }
    return {
        split_key(key): words[row.kind].format(reason=row.reason)
        for row in of_release(version)
        for key in row.keys
    }
