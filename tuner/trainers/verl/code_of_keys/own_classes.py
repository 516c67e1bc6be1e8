"""The classes that run in place of the trainer's: those of a copy, and those of a project that build on them.

A class is told by its name, or by that of a class that it builds on. What it does not define itself it has
from there. Nothing is imported or run.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from tuner.trainers.verl.code_of_keys.digest import Function

_CLASS = re.compile(r"^[ \t]*class\s+(\w+)\s*(?:\(([^)]*)\))?\s*:", re.MULTILINE)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([\w.]+))",
    re.MULTILINE,
)
_SUPER = "super"


class OwnClass(Struct, frozen=True, kw_only=True):
    """A class in one file."""

    file: str
    name: str
    bases: tuple[str, ...]  # their last words

    def builds_on(self, owner: str, classes: "Mapping[str, list[OwnClass]]", depth: int = 4) -> bool:
        """Whether it stands for a class of the trainer: by its own name, or by what it builds on."""
        if owner in (self.name, *self.bases):
            return True
        further = (one for base in self.bases for one in classes.get(base, ()))
        return depth > 0 and any(one.builds_on(owner, classes, depth - 1) for one in further)


def classes_in(texts: Mapping[str, str]) -> Iterator[OwnClass]:
    """The classes of some files, as their lines say."""
    for file, text in texts.items():
        if "class " not in text:
            continue
        for match in _CLASS.finditer(text):
            bases = tuple(part.strip().rpartition(".")[2] for part in (match[2] or "").split(","))
            yield OwnClass(file=file, name=match[1], bases=bases)


def used_files(files: Collection[str], texts: Mapping[str, str], start: Iterable[str]) -> list[str]:
    """The files that some others import, and those that these do, by the names of their modules."""
    waiting, used = list(start), list[str]()
    while waiting:
        importer = waiting.pop(0)
        modules = set(_imported(importer, texts.get(importer, "")))
        for file in files:
            if file not in used and any(_is_of(file, module, importer) for module in modules):
                used.append(file)
                waiting.append(file)
    return used


def _imported(importer: str, text: str) -> Iterator[str]:
    """The modules that a file names to import from, as paths: relative ones from the top."""
    for match in _IMPORT.finditer(text):
        dots, module, names = match[1] or "", match[2] or match[4] or "", match[3] or ""
        folder = "/".join(importer.split("/")[: -len(dots)]) if dots else ""
        path = "/".join(part for part in (folder, module.replace(".", "/")) if part)
        yield path
        yield from (f"{path}/{name}" for name in re.findall(r"\w+", names))


def _is_of(file: str, module: str, importer: str) -> bool:
    """Whether a file is that of a module; one without a folder lies beside the file that imports it."""
    path = file.removesuffix(".py").removesuffix("/__init__")
    if "/" not in module:
        return path == "/".join((*importer.split("/")[:-1], module))
    return path == module or path.endswith(f"/{module}")


def methods(tree: ast.Module, name: str) -> dict[str, Function]:
    """The methods of a class of a module by their names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return {part.name: part for part in node.body if isinstance(part, Function)}
    return {}


def helpers(function: Function, of_class: Mapping[str, Function]) -> list[Function]:
    """A function with the methods of its class that it calls, and those that they call."""
    taken, waiting = {function.name: function}, [function]
    while waiting:
        for node in ast.walk(waiting.pop()):
            name = node.attr if isinstance(node, ast.Attribute) else ""
            if name in of_class and name not in taken:
                taken[name] = of_class[name]
                waiting.append(of_class[name])
    return list(taken.values())


def calls_super(functions: Iterable[Function], name: str) -> bool:
    """Whether functions hand on to what their class builds on."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == _SUPER
        for function in functions
        for node in ast.walk(function)
    )
