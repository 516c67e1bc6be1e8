"""The files of a copy of the trainer as the programs in them import each other; nothing is run."""

import ast
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

from tuner.trainers.verl.trainer_code.statements import parsed

Function = ast.FunctionDef | ast.AsyncFunctionDef
_MOST_STEPS = 8  # from a name to the file that defines it
_parsed = lru_cache(maxsize=64)(parsed)


class ProgramModule:
    """A file of the copy: what it defines, and from where it has other names.

    Args:
        file: below the folder that holds the package, with slashes.
        tree: of its syntax.
    """

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.file = file
        self.tree = tree

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Its functions by name, the last one of each."""
        return functions_of(self.tree.body)

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Its classes by name."""
        return {part.name: part for part in self.tree.body if isinstance(part, ast.ClassDef)}

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """By name the module, with slashes, and the name there of what the file itself imports."""
        return {
            name: source
            for part in self.tree.body
            if isinstance(part, ast.ImportFrom)
            for name, source in self.imported(part)
        }

    def imported(self, node: ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str]]]:
        """The names that a statement imports."""
        folders = self.file.split("/")[: -node.level] if node.level else []
        module = "/".join([*folders, *(node.module or "").split(".")]).strip("/")
        for alias in node.names:
            yield alias.asname or alias.name, (module, alias.name)


class ProgramModules:
    """The files of a copy, each parsed when something is first asked of it.

    Args:
        text_of: the text of a file of the copy; None of one that is not there.
    """

    def __init__(self, text_of: Callable[[str], str | None]) -> None:
        self._text_of = text_of
        self._modules: dict[str, ProgramModule | None] = {}

    def file(self, path: str) -> ProgramModule | None:
        """A file by its path; None where it is not there, or is no Python."""
        if path not in self._modules:
            text = self._text_of(path)
            tree = None if text is None else _parsed(text)
            self._modules[path] = None if tree is None else ProgramModule(path, tree)
        return self._modules[path]

    def defined(
        self, module: ProgramModule, name: str
    ) -> tuple[ProgramModule, Function | ast.ClassDef] | None:
        """The function or class that a name of a module stands for, and the module that defines it."""
        for _step in range(_MOST_STEPS):
            node = module.functions.get(name) or module.classes.get(name)
            if node is not None:
                return module, node
            if name not in module.imports:
                return None
            source, name = module.imports[name]
            found = self.file(f"{source}.py") or self.file(f"{source}/__init__.py")
            if found is None:
                return None
            module = found
        return None

    def method(
        self, module: ProgramModule, owner: ast.ClassDef, name: str, *, above: bool = False
    ) -> tuple[ProgramModule, ast.ClassDef, Function] | None:
        """The method of a class, or of the first of its bases that has it, with where it stands.

        Args:
            module: that defines the class.
            owner: the class.
            name: of the method.
            above: the class's own is not meant, as with ``super()``.
        """
        for place, one in self.with_bases(module, owner):
            methods = functions_of(one.body)
            if name in methods and not (above and one is owner):
                return place, one, methods[name]
        return None

    def with_bases(
        self, module: ProgramModule, owner: ast.ClassDef, *, steps: int = _MOST_STEPS
    ) -> Iterator[tuple[ProgramModule, ast.ClassDef]]:
        """A class and those that it rests on, as far as the copy has them."""
        yield module, owner
        for base in owner.bases if steps else ():
            found = self.defined(module, base.id) if isinstance(base, ast.Name) else None
            if found is not None and isinstance(found[1], ast.ClassDef):
                yield from self.with_bases(found[0], found[1], steps=steps - 1)


def functions_of(body: list[ast.stmt]) -> dict[str, Function]:
    """The functions that are defined in a body, by name."""
    return {part.name: part for part in body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}
