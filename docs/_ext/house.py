"""The rooms of a package of the program and what they import of one another, read off the sources.

A room is a package or a module that stands directly in the package. Nothing is run: imports are those
that the sources state, wherever in a file, those for the type checker too.
"""

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from kept_answers import cached_answer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which Sphinx brings along there

ROOT = Path(__file__).parents[2]
PROGRAM = "tuner"

Import = tuple[str, str]
"""The room that imports, and the room that it imports from."""


@dataclass(frozen=True)
class Room:
    """A package or a module of the package that is looked at."""

    name: str
    sentence: str  # the first of its docstring
    lines: int
    files: tuple[Path, ...]


@dataclass(frozen=True)
class House:
    """A package with its rooms, their imports, and the floors that the imports make."""

    package: str
    rooms: Mapping[str, Room]
    imports: frozenset[Import]
    floors: tuple[tuple[str, ...], ...]  # from the top: a room imports from lower ones only


@cached_answer(words=False)
def read_house(package: str) -> House:
    """The house of one package, for example ``"tuner.memory"``."""
    folder = ROOT.joinpath(*package.split("."))
    rooms = {room.name: room for room in rooms_in(folder)}
    imports = frozenset(_imports(package, rooms))
    floors = _layers() if package == PROGRAM else floors_of(rooms, imports)
    return House(package=package, rooms=rooms, imports=imports, floors=floors)


def rooms_in(folder: Path) -> Iterator[Room]:
    """The packages and modules that stand directly in a folder."""
    for path in sorted(folder.iterdir()):
        head = path / "__init__.py" if path.is_dir() else path
        if head.suffix != ".py" or head == folder / "__init__.py" or not head.exists():
            continue
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        yield Room(name=path.stem, sentence=_sentence(head), lines=lines, files=tuple(files))


def _sentence(path: Path) -> str:
    """The first sentence of a file's docstring, with the last words of names that it refers to."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    match = re.match(r".*?\.(?=\s|$)", " ".join(docstring.split()))
    sentence = match[0] if match else ""
    return re.sub(r":[\w:]+:`~?(?:\w+\.)*(\w+)`", r"``\1``", sentence)


def _imports(package: str, rooms: Mapping[str, Room]) -> Iterator[Import]:
    """The imports of one room from another."""
    for room in rooms.values():
        for file in room.files:
            for name in _imported(ast.parse(file.read_text(encoding="utf-8"))):
                target = name.removeprefix(f"{package}.").partition(".")[0]
                if name.startswith(f"{package}.") and target in rooms and target != room.name:
                    yield room.name, target


def _imported(tree: ast.Module) -> Iterator[str]:
    """Dotted names, of modules or of what stands in them; relative imports are forbidden here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _layers() -> tuple[tuple[str, ...], ...]:
    """The floors of the program, as the import contract has them."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in config["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    return tuple(tuple(re.findall(r"\w+", layer)) for layer in layers)


def floors_of(rooms: Collection[str], imports: Collection[Import]) -> tuple[tuple[str, ...], ...]:
    """Floors from the top, each room as low as what it imports lets it.

    Raises:
        CycleError: rooms import each other in a circle.
    """
    lower = {room: {target for source, target in imports if source == room} for room in rooms}
    heights: dict[str, int] = {}
    for room in TopologicalSorter(lower).static_order():
        heights[room] = 1 + max((heights[target] for target in lower[room]), default=0)
    return tuple(
        tuple(room for room in rooms if heights[room] == height)
        for height in range(max(heights.values()), 0, -1)
    )


def reachable(rooms: Collection[str], imports: Collection[Import]) -> dict[str, set[str]]:
    """What each room imports, and what these import, and so on."""
    below: dict[str, set[str]] = {room: set() for room in rooms}
    waiting = {room: {target for source, target in imports if source == room} for room in rooms}
    while any(waiting.values()):
        for room in rooms:
            below[room] |= waiting[room]
        waiting = {
            room: {lower for target in new for lower in below[target]} - below[room]
            for room, new in waiting.items()
        }
    return below


def without_implied(rooms: Collection[str], imports: Collection[Import]) -> set[Import]:
    """The imports that are left when those are taken away that a longer way implies."""
    below = reachable(rooms, imports)
    implied = {(source, lower) for source, target in imports for lower in below[target]}
    return set(imports) - implied
