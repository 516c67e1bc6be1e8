"""Says what a newer verl wheel changed of what is written down about verl here.

``python -m tuner.trainers.verl.compare OLDER NEWER`` lists keys that appeared, vanished or have
another default, keys of the tables that the newer wheel lacks, requirements, and the files that a source
names and that changed, with the modules to read again. Nothing of a wheel is imported or executed.
"""

import argparse
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tuner
from tuner.inputs.tree import dotted, leaves, shown, split_key
from tuner.trainers.verl.defaults import CONFIGS, Defaults, read_file
from tuner.trainers.verl.defaults.build import build
from tuner.trainers.verl.keys import KEYS, key
from tuner.trainers.verl.schema import schema_of

_NAMED_FILE = re.compile(r"``((?:\w+/)+[\w.]+\.(?:py|yaml))")
_ROOT = Path(tuner.__file__).parent


class Wheel:
    """A wheel of verl, read without installing it."""

    def __init__(self, path: Path) -> None:
        self.version = path.name.split("-")[1]
        with zipfile.ZipFile(path) as archive:
            self._files = {name: archive.getinfo(name).CRC for name in archive.namelist()}
            metadata = next(name for name in self._files if name.endswith(".dist-info/METADATA"))
            text = archive.read(metadata).decode()
        self.requirements = {line[15:] for line in text.splitlines() if line.startswith("Requires-Dist: ")}
        with tempfile.TemporaryDirectory() as folder:
            self._defaults = [read_file(written) for written in build(path, Path(folder))]

    def defaults(self, config: str) -> Mapping[str, Any]:
        """Keys of a configuration with their defaults."""
        tree = next(defaults.tree for defaults in self._defaults if defaults.config == config)
        return {dotted(path): value for path, value in leaves(dict(tree)) if path[-1] != "_target_"}

    def lacks(self, name: str) -> bool:
        """Whether neither configuration has a key."""
        return not any(_has(defaults, name) for defaults in self._defaults)

    def content(self, name: str) -> int | None:
        """A number that is another one where a file of verl is another one; None without the file."""
        return self._files.get(f"verl/{name}")


def _has(defaults: Defaults, name: str) -> bool:
    schema, path = schema_of(defaults), split_key(name)
    return schema.in_yaml(path) or schema.in_dataclass(path)


def differences(older: Wheel, newer: Wheel) -> Iterator[tuple[str, list[str]]]:
    """Titles, and what there is to say under each."""
    configs = [(config, older.defaults(config), newer.defaults(config)) for config in CONFIGS]
    yield "Keys that appeared", _joined((config, _appeared(old, new)) for config, old, new in configs)
    yield "Keys that vanished", _joined((config, old.keys() - new.keys()) for config, old, new in configs)
    yield "Defaults that changed", _joined((config, _changed(old, new)) for config, old, new in configs)
    yield "Keys of the tables that are gone", list(_gone(older, newer))
    yield "Requirements that are gone", sorted(older.requirements - newer.requirements)
    yield "Requirements that are new", sorted(newer.requirements - older.requirements)
    yield "Files that a source names and that changed", list(_changed_files(older, newer))


def _joined(lines: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    """Lines of all configurations once, those of one alone with its name."""
    by_config = {config: set(of) for config, of in lines}
    common = set.intersection(*by_config.values())
    alone = [f"{line} ({config})" for config, of in by_config.items() for line in of - common]
    return sorted([*common, *alone])


def _appeared(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name}={shown(new[name])}" for name in new.keys() - old.keys())


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in old.keys() & new.keys():
        if old[name] != new[name]:
            yield f"{name}: {shown(old[name])} -> {shown(new[name])}"


def _gone(older: Wheel, newer: Wheel) -> Iterator[str]:
    for meaning in KEYS:
        name = key(meaning, newer.version)
        if name is not None and newer.lacks(name) and not older.lacks(name):
            yield f"{name} ({meaning})"


def _changed_files(older: Wheel, newer: Wheel) -> Iterator[str]:
    for name, modules in sorted(named_files().items()):
        if older.content(name) is not None and older.content(name) != newer.content(name):
            gone = " (gone)" if newer.content(name) is None else ""
            yield f"{name}{gone}: {', '.join(modules)}"


def named_files() -> dict[str, list[str]]:
    """Files that sources in this package name, and the modules that name them."""
    files: dict[str, list[str]] = {}
    for module in sorted(_ROOT.rglob("*.py")):
        for name in sorted(set(_NAMED_FILE.findall(module.read_text("utf-8")))):
            files.setdefault(name, []).append(module.relative_to(_ROOT).as_posix())
    return files


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: the two wheels."""
    parser = argparse.ArgumentParser(description="Compare two wheels of verl.")
    parser.add_argument("older", type=Path, metavar="OLDER", help="the newest wheel that is bundled")
    parser.add_argument("newer", type=Path, metavar="NEWER")
    options = parser.parse_args(arguments)
    for title, lines in differences(Wheel(options.older), Wheel(options.newer)):
        sys.stdout.write(f"{title}: {len(lines) or 'none'}\n")
        sys.stdout.writelines(f"  {line}\n" for line in lines)


if __name__ == "__main__":
    main()
