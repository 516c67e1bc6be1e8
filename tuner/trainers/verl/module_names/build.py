"""Writes which releases of verl have which modules, and which names in them, from unpacked wheels.

``python -m tuner.trainers.verl.module_names.build FOLDER`` reads ``FOLDER/verl-RELEASE/verl`` of every
bundled release. Nothing of the wheels is imported or executed: their modules are parsed.
"""

import argparse
import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tuner.trainers.verl.module_names import ANY, FILE
from tuner.trainers.verl.releases import BUNDLED

_PACKAGE = "__init__"
_DYNAMIC = "__getattr__"  # a function of a module that makes names up

Bits = dict[str, int]


def build(folder: Path) -> str:
    """The text of the file, from the unpacked wheels in a folder."""
    modules, names = Bits(), dict[str, Bits]()
    for bit, release in enumerate(BUNDLED):
        base = folder / f"verl-{release}"
        for file in sorted((base / "verl").rglob("*.py")):
            parts = file.relative_to(base).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == _PACKAGE else parts)
            modules[module] = modules.get(module, 0) | 1 << bit
            own = names.setdefault(module, {})
            for name in set(names_in(ast.parse(file.read_text(encoding="utf-8")).body)):
                own[name] = own.get(name, 0) | 1 << bit
    return "".join(f"{_line(module, bits, names[module])}\n" for module, bits in sorted(modules.items()))


def names_in(body: Iterable[ast.AST]) -> Iterator[str]:
    """The names that statements of a module bind, under whatever conditions; ``*`` for those not named."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield ANY if node.name == _DYNAMIC else node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            yield from (part.id for part in ast.walk(node) if _is_bound(part) and isinstance(part, ast.Name))
        else:
            yield from names_in(ast.iter_child_nodes(node))


def _is_bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _line(module: str, bits: int, names: Bits) -> str:
    written = (name if own == bits else f"{name}={own:x}" for name, own in sorted(names.items()))
    return " ".join((module, f"{bits:x}", *written))


def main() -> None:
    """Write the file beside this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="that holds verl-RELEASE of every bundled release")
    text = build(parser.parse_args().folder)
    Path(__file__).with_name(FILE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
