"""Writes the bundled defaults from released verl wheels.

``python -m tuner.trainers.verl.defaults.build verl-0.9.1-py3-none-any.whl ...`` composes both trainer
configurations of each wheel with Hydra, as verl's entry point does, and writes them beside this file.
Nothing of the wheel is imported or executed: its YAML is composed, its dataclasses are parsed.
"""

import argparse
import ast
import hashlib
import json
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tuner.inputs.tree import leaves
from tuner.trainers.verl.defaults import (
    CONFIG_FOLDER,
    FINE_TUNING_CONFIGS,
    PPO_CONFIGS,
    VEOMNI_CONFIG,
    file_of,
)
from tuner.versions import at_least

_FIRST = {VEOMNI_CONFIG: "0.7.1", FINE_TUNING_CONFIGS[-1]: "0.8.0"}  # 0.7.1 by its newer workers alone
_DATACLASS_MODULES = (
    r"verl/(?:trainer/config|workers/config|utils/profiler)/.*\.py|verl/(?:base_config|utils/skip.*)\.py"
)


def build(wheel: Path, folder: Path) -> list[Path]:
    """Write one JSON file per trainer configuration that ``wheel`` has into ``folder``."""
    version = wheel.name.split("-")[1]
    with zipfile.ZipFile(wheel) as archive:
        names = [
            name for name in archive.namelist() if name.startswith(CONFIG_FOLDER) and name.endswith(".yaml")
        ]
        modules = [name for name in archive.namelist() if re.fullmatch(_DATACLASS_MODULES, name)]
        classes = _dataclasses(archive.read(name) for name in modules)
        with tempfile.TemporaryDirectory() as unpacked:
            archive.extractall(unpacked, names)
            configs = {
                config: _compose(Path(unpacked, CONFIG_FOLDER), *file_of(config))
                for config in (*PPO_CONFIGS, *FINE_TUNING_CONFIGS)
                if f"{CONFIG_FOLDER}{file_of(config)[0]}.yaml" in names
                and at_least(version, _FIRST.get(config, "0"))
                and all(
                    f"{CONFIG_FOLDER}{group}/{name}.yaml" in names
                    for group, name in file_of(config)[1].items()
                )
            }
    origin = {"wheel": wheel.name, "wheel_sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}
    written = []
    for config, (tree, groups) in configs.items():
        content = {
            "version": version,
            "config": config,
            **origin,
            "files": sorted(name for name in names if "_generated_" not in name),
            "groups": groups,
            "fields": {target: classes[name] for target, name in _targets(tree) if name in classes},
            "tree": tree,
        }
        file = folder / f"{version}-{config}.json"
        file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
        written.append(file)
    return written


def _compose(folder: Path, config: str, choices: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The composed configuration, interpolations kept, and the config groups that it is composed of."""
    with initialize_config_dir(str(folder.resolve()), version_base=None):
        composed = compose(config, [f"{group}={name}" for group, name in choices.items()])
    tree = OmegaConf.to_container(composed, resolve=False)
    assert isinstance(tree, dict)
    return {str(key): value for key, value in tree.items()}, dict(_groups(folder, config))


def _groups(folder: Path, config: str) -> Iterator[tuple[str, str]]:
    primary = yaml.safe_load((folder / f"{config}.yaml").read_text("utf-8"))
    for entry in primary.get("defaults", []):
        if isinstance(entry, str) and entry != "_self_" and (folder / f"{entry}.yaml").is_file():
            yield from _groups(folder, entry)
        elif isinstance(entry, dict):
            yield from ((group.removeprefix("override "), choice) for group, choice in entry.items())


def _targets(tree: dict[str, Any]) -> list[tuple[str, str]]:
    """Every ``_target_`` of a tree with the name of its class."""
    targets = {str(value) for path, value in leaves(tree) if path[-1:] == ("_target_",)}
    return [(target, target.rpartition(".")[2]) for target in sorted(targets)]


def _dataclasses(sources: Iterable[bytes]) -> dict[str, list[str]]:
    """The fields of every dataclass by its name, those of its bases included."""
    nodes = {
        node.name: node
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and any("dataclass" in ast.unparse(mark) for mark in node.decorator_list)
    }

    def fields(name: str) -> set[str]:
        if name not in nodes:
            return set()
        own = {
            item.target.id
            for item in nodes[name].body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        }
        bases = {ast.unparse(base).rpartition(".")[2] for base in nodes[name].bases} - {name}
        return own.union(*(fields(base) for base in bases))

    return {name: sorted(field for field in fields(name) if not field.startswith("_")) for name in nodes}


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: the wheels, and optionally another folder to write to."""
    parser = argparse.ArgumentParser(description="Write the bundled defaults of verl releases.")
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    options = parser.parse_args(arguments)
    for wheel in options.wheels:
        build(wheel, options.folder)


if __name__ == "__main__":
    main()
