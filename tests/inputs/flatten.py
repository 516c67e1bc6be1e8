"""Writes flattened defaults of verl wheels into ``tests/data``: ``python -m tests.inputs.flatten WHEEL...``.

They come from the composed files that verl brings along for reading (``_generated_*.yaml``, since 0.5.0),
so that neither Hydra nor this package has a hand in what the bundled defaults are held to.
"""

import json
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parents[1] / "data" / "verl-defaults.jsonl"
CONFIGS = {"ppo_trainer": "dp", "ppo_megatron_trainer": "megatron"}  # and the engine of each
Rows = dict[tuple[str, str], list[tuple[Any, list[str]]]]


def flattened(wheel: Path, config: str) -> dict[str, Any]:
    """Keys and values of one configuration of a wheel."""
    folder = "verl/trainer/config/"
    with zipfile.ZipFile(wheel) as archive:
        flat = dict(_leaves(yaml.safe_load(archive.read(f"{folder}_generated_{config}.yaml"))))
        choice = f"{folder}model_engine/{CONFIGS[config]}.yaml"  # since 0.7.1, left out of the composed files
        if choice in archive.namelist():
            flat.update(_leaves(yaml.safe_load(archive.read(choice))))
    return flat


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict) and node:
        for name, below in node.items():
            yield from _leaves(below, f"{path}.{name}" if path else str(name))
    else:
        yield path, "{}" if node == {} else node


def add(rows: Rows, version: str, config: str, flat: dict[str, Any]) -> None:
    """Note the values of a release, in place of what was noted of it before."""
    for (of, _), values in rows.items():
        for _, releases in values if of == config else ():
            if version in releases:
                releases.remove(version)
    for key, value in flat.items():
        values = rows.setdefault((config, key), [])
        alike = (releases for known, releases in values if json.dumps(known) == json.dumps(value))
        releases = next(alike, None)
        if releases is None:
            values.append((value, [version]))
        else:
            releases.append(version)


def main(arguments: Sequence[str]) -> None:
    """Command line: the wheels."""
    lines = map(json.loads, DATA.read_text(encoding="utf-8").splitlines())
    rows: Rows = {(config, key): [tuple(value) for value in values] for config, key, values in lines}
    for wheel in map(Path, arguments):
        for config in CONFIGS:
            add(rows, wheel.name.split("-")[1], config, flattened(wheel, config))
    kept = ((of, key, [value for value in values if value[1]]) for (of, key), values in rows.items())
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept if row[2])
    DATA.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
