"""Writes the table of the releases that know each type of model, from wheels or what they unpack to.

``pip download --no-deps --dest wheels vllm==0.8.4`` for each release of vllm, sglang and transformers, then
``python -m tests.measure.known_models wheels/*``. A folder that is named as a wheel is read like one.
Nothing of them is imported or executed.
"""

import argparse
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from tuner.architectures import model_types
from tuner.serving.known_models import FILE, release_order

#: Files of each package that say which models it knows, and how a name stands in them.
_PLACES = {
    "vllm": (("vllm/model_executor/models/registry.py", "vllm/model_executor/models/__init__.py"), ""),
    "sglang": ((), "sglang/srt/models/"),
    "transformers": (
        (
            "transformers/models/auto/configuration_auto.py",
            "transformers/models/auto/auto_mappings.py",
        ),
        "",
    ),
}
_CLASS_OF_VLLM = re.compile(r'^\s*"(\w+)":\s*\(', re.MULTILINE)
_ENTRIES_OF_SGLANG = re.compile(r"^EntryClass\s*=\s*(\[[^\]]*\]|\w+)", re.MULTILINE)
_TYPE = re.compile(r'"([\w-]+)"\s*[,:]\s*"\w+Config"')
#: Classes of types that transformers has none of: ``architectures`` of their published ``config.json``.
_OWN_CODE = {
    "kimi_k2": {"DeepseekV3ForCausalLM"},
    "deepseek_v32": {"DeepseekV32ForCausalLM"},
    "minicpm": {"MiniCPMForCausalLM"},
    "minicpm3": {"MiniCPM3ForCausalLM"},
    "minimax_m1": {"MiniMaxM1ForCausalLM"},
    "minimax_text_01": {"MiniMaxText01ForCausalLM"},
    "mimo": {"MiMoForCausalLM"},
}
_MAPPINGS = ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES")


def texts(package: str, wheel: Path) -> list[str]:
    """The files of a wheel, or of a folder of what it unpacks to, that say which models it knows."""
    files, folder = _PLACES[package]
    if wheel.is_dir():
        named = [wheel / file for file in files] + (sorted((wheel / folder).glob("*.py")) if folder else [])
        return [file.read_text("utf-8") for file in named if file.is_file()]
    with zipfile.ZipFile(wheel) as archive:
        names = [
            name
            for name in archive.namelist()
            if name in files or (folder and name.startswith(folder) and name.endswith(".py"))
        ]
        return [archive.read(name).decode("utf-8") for name in names]


def known(package: str, found: Iterable[str]) -> set[str]:
    """The classes that an engine registers; of transformers the types of its configurations."""
    if package == "vllm":
        return {name for text in found for name in _CLASS_OF_VLLM.findall(text)}
    if package == "transformers":
        return {name for text in found for name in _TYPE.findall(text)}
    return {
        name
        for text in found
        for entry in _ENTRIES_OF_SGLANG.findall(text)
        for name in re.findall(r"\w+", entry)
    }


def classes_of_types() -> dict[str, set[str]]:
    """The classes that a ``config.json`` of each type names, as the installed transformers has them."""
    auto = import_module("transformers.models.auto.modeling_auto")
    classes = {kind: set(_OWN_CODE.get(kind, ())) for kind in model_types()}
    for mapping in _MAPPINGS:
        for kind, names in getattr(auto, mapping).items():
            if kind in classes and kind not in _OWN_CODE:
                classes[kind] |= {names} if isinstance(names, str) else set(names)
    return classes


def bounds(releases: Mapping[str, set[str]], names: set[str]) -> list[str] | None:
    """The last release that was read and lacks what is named, and the first with it; None without both."""
    ordered = sorted(releases, key=release_order)
    first = next((at for at, release in enumerate(ordered) if releases[release] & names), None)
    return [ordered[first - 1], ordered[first]] if first else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: the wheels or folders."""
    parser = argparse.ArgumentParser(description="Write which releases know a type of model.")
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    releases: dict[str, dict[str, set[str]]] = {package: {} for package in _PLACES}
    for wheel in parser.parse_args(arguments).wheels:
        package, version = wheel.name.split("-")[:2]
        releases[package][version] = known(package, texts(package, wheel))
    classes = classes_of_types()
    table = {
        package: {
            kind: found
            for kind, names in sorted(classes.items())
            if (found := bounds(read, {kind} if package == "transformers" else names))
        }
        for package, read in releases.items()
    }
    lines = json.dumps(table, indent=1)
    FILE.write_text(re.sub(r"\[\s+(\S+)\s+(\S+)\s+\]", r"[\1 \2]", lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
