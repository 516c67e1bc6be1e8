"""Where a mutant lives in the running program: the function whose code it changes, and its statement.

A function's code is exchanged while its module stays imported, so that a process that has collected the tests
once can try one mutant after the other in forks of itself.
"""

import ast
import builtins
import functools
import gc
import importlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType

from tests.measure.mutation.operators import Mutant

REACHED = "__mutation_reached__"  # the builtin that probes call


def module_of(file: str) -> str:
    """The module of a file of the repository."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class LiveFunctions:
    """The functions of the package that are in memory, by the file and the text they were compiled from."""

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        """Imports every module, so that its functions are there.

        Args:
            root: of the repository.
            files: whose functions will be asked for.
        """
        self.root = root
        self.sources = {file: (root / file).read_text() for file in files}
        for file in self.sources:
            importlib.import_module(module_of(file))
        gc.unfreeze()  # what was imported while tests were collected is asked too
        paths = {str(root / file): file for file in self.sources}
        self.functions: dict[str, list[FunctionType]] = defaultdict(list)
        self.caches: list[functools._lru_cache_wrapper[object]] = []
        for item in gc.get_objects():
            if type(item) is functools._lru_cache_wrapper and item.__module__.startswith("tuner"):
                self.caches.append(item)
            if type(item) is FunctionType and item.__code__.co_filename in paths:
                self.functions[paths[item.__code__.co_filename]].append(item)
        gc.freeze()
        # Equal code objects of one file are one function's, however often it was defined.
        self.compiled = {file: self._outermost(file, source) for file, source in self.sources.items()}

    def _outermost(self, file: str, source: str | ast.Module) -> dict[str, list[CodeType]]:
        module = compile(source, str(self.root / file), "exec", dont_inherit=True)
        codes: dict[str, list[CodeType]] = defaultdict(list)
        for code in _functions(module):
            codes[code.co_qualname].append(code)
        return codes

    def exchange(self, file: str, source: str | ast.Module, names: set[str]) -> int:
        """Give functions the code that another text of their file has for them, and forget what they gave.

        Args:
            file: relative to the repository.
            source: what it would say, as a text or parsed.
            names: qualified names of the outermost functions that differ.

        Returns:
            How many functions in memory now run other code.
        """
        changed = 0
        after = self._outermost(file, source)
        for name in names:
            for old, new in zip(self.compiled[file][name], after[name], strict=True):
                if old == new:
                    continue
                for function in self.functions[file]:
                    if function.__code__ == old and function.__code__.co_freevars == new.co_freevars:
                        function.__code__ = new
                        changed += 1
        for cache in self.caches:  # what was computed while the tests were collected
            cache.cache_clear()
        return changed

    def with_probes(
        self, probes: dict[str, dict[tuple[int, int], int]], reached: Callable[[int], None]
    ) -> int:
        """Have statements say that they are reached.

        Args:
            probes: for each file a number for each place, the line and column of a statement or a lambda.
            reached: gets the number.

        Returns:
            How many functions in memory have a probe.
        """
        setattr(builtins, REACHED, reached)
        changed = 0
        for file, places in probes.items():
            tree = _Probes(places).visit(ast.parse(self.sources[file]))
            changed += self.exchange(file, ast.fix_missing_locations(tree), set(self.compiled[file]))
        return changed


def _functions(code: CodeType, within_function: bool = False) -> Iterator[CodeType]:
    """The outermost functions and lambdas of a module, those of its classes included."""
    for constant in code.co_consts:
        if not isinstance(constant, CodeType):
            continue
        if constant.co_flags & 0x2:  # CO_NEWLOCALS: a function, and not the body of a class
            yield constant
        else:
            yield from _functions(constant)


class _Probes(ast.NodeTransformer):
    def __init__(self, places: dict[tuple[int, int], int]) -> None:
        self.places = places

    def _call(self, number: int) -> ast.Call:
        return ast.Call(ast.Name(REACHED, ast.Load()), [ast.Constant(number)], [])

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        number = self.places.get((node.lineno, node.col_offset))
        self.generic_visit(node)
        if number is not None:
            pair = ast.Tuple([self._call(number), node.body], ast.Load())
            node.body = ast.Subscript(pair, ast.Constant(1), ast.Load())
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                setattr(node, field, list(self._probed(statements)))
        return node

    def _probed(self, statements: list[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in statements:
            number = self.places.get((statement.lineno, statement.col_offset))
            if number is not None:
                yield ast.Expr(self._call(number))
            yield statement


class Places:
    """Which statement or lambda of a file holds a place, and where its functions begin."""

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        self.starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def statement_of(self, mutant: Mutant) -> tuple[int, int] | None:
        """Line and column of the innermost statement of a function, or of a lambda; None at import."""
        place: tuple[int, int] | None = None
        inside = False
        node: ast.AST | None = self.tree
        while node is not None:
            if isinstance(node, ast.Lambda) and not inside:
                return node.lineno, node.col_offset
            if inside and isinstance(node, ast.stmt):
                place = (node.lineno, node.col_offset)
            inside = inside or isinstance(node, ast.FunctionDef)
            node = next((child for child in self._children(node) if self._holds(child, mutant)), None)
        return place

    def _children(self, node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if hasattr(child, "lineno"):
                yield child
            else:  # arguments, comprehensions and the like have no place of their own
                yield from self._children(child)

    def _holds(self, node: ast.AST, mutant: Mutant) -> bool:
        start = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return bool(start <= mutant.start and mutant.end <= end)

    def functions(self) -> Iterator[tuple[int, int]]:
        """Where the first statement of every function behind its docstring stands, and every lambda."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Lambda):
                yield node.lineno, node.col_offset
            elif isinstance(node, ast.FunctionDef):
                body = (
                    node.body[1:]
                    if ast.get_docstring(node, clean=False) and len(node.body) > 1
                    else node.body
                )
                yield body[0].lineno, body[0].col_offset

    def defined_by(self, mutant: Mutant) -> str | None:
        """The name that the statement at module level gives a value to."""
        for node in self.tree.body:
            if self._holds(node, mutant):
                target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
                return target.id if isinstance(target, ast.Name) else None
        return None
