"""Whether a program of a copy of the trainer generates and never updates a model; nothing is run.

From ``main`` on, functions and classes of the copy are followed by their names, and methods by the names that
are used anywhere on the way: more is followed than runs, so that an update that might run is never missed.
What workers do is asked of them by name, and their own files are not followed.

Source: verl 0.3.0.post1 to 0.9.1 ``trainer/ppo/ray_trainer.py`` (``fit``: ``generate_sequences``,
``update_actor``, ``update_critic``).
"""

import ast
from collections.abc import Iterator

from tuner.trainers.verl.trainer_code.program_modules import (
    Function,
    ProgramModule,
    ProgramModules,
    functions_of,
)

_STARTS = "main"
_GENERATES = "generate_sequences"
_VALIDATES = "_validate"  # told apart: what is generated then is judged
_UPDATES = frozenset(
    {
        *("update_actor", "update_critic", "update_policy", "train_batch", "train_mini_batch"),
        *("train_step", "training_step", "backward"),
    }
)
#: Train wherever they are defined, if nobody sees what is in them.
_TRAINS = frozenset({"fit", "train", "learn"})
_WORKERS = "workers"  # the folder of the package
_MOST_FUNCTIONS = 500

_Place = tuple[ProgramModule, Function]


def generates_only(modules: ProgramModules, file: str) -> bool:
    """Whether a program reaches the generation of responses, and nothing that trains or validates.

    Args:
        modules: the files of the copy.
        file: of the program, below the folder that holds the package.
    """
    program = modules.file(file)
    main = None if program is None else program.functions.get(_STARTS)
    if program is None or main is None:
        return False
    reach = _Reach(modules)
    reach.follow(program, main)
    names = reach.names
    if not reach.is_whole or not names.isdisjoint(_UPDATES) or _VALIDATES in names:
        return False
    return _GENERATES in names and (names & _TRAINS) <= reach.followed


class _Reach:
    """What may be run from one function on.

    Args:
        modules: the files of the copy.
    """

    def __init__(self, modules: ProgramModules) -> None:
        self._modules = modules
        self.names: set[str] = set()  # of whatever is used on the way
        self.followed: set[str] = set()  # functions and methods, by name
        self._places: set[int] = set()
        self._owners: dict[int, list[_Place]] = {}  # methods of the classes that are used
        self.is_whole = True

    def follow(self, module: ProgramModule, start: Function) -> None:
        """Follow a function, and what it names, until nothing is added."""
        left: list[_Place] = [(module, start)]
        while left and self.names.isdisjoint(_UPDATES):
            place, function = left.pop()
            if id(function) in self._places:
                continue
            self._places.add(id(function))
            if len(self._places) > _MOST_FUNCTIONS:
                self.is_whole = False
                return
            self.followed.add(function.name)
            self.names |= _names_in(function)
            left.extend(self._named_functions(place, function))
            left.extend(self._named_methods())

    def _named_functions(self, module: ProgramModule, function: Function) -> Iterator[_Place]:
        """The functions of the copy that a function names; classes that it names are kept."""
        imported = {
            name: source
            for node in ast.walk(function)
            if isinstance(node, ast.ImportFrom)
            for name, source in module.imported(node)
        }
        for name in {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}:
            there = self._defined(module, name, imported.get(name))
            if there is None or _WORKERS in there[0].file.split("/"):
                continue
            if isinstance(there[1], ast.ClassDef):
                self._keep(there[0], there[1])
            else:
                yield there[0], there[1]

    def _defined(
        self, module: ProgramModule, name: str, source: tuple[str, str] | None
    ) -> tuple[ProgramModule, Function | ast.ClassDef] | None:
        """What a name stands for, which the function itself may import."""
        if source is None:
            return self._modules.defined(module, name)
        file, there = source
        imported = self._modules.file(f"{file}.py") or self._modules.file(f"{file}/__init__.py")
        return None if imported is None else self._modules.defined(imported, there)

    def _keep(self, module: ProgramModule, owner: ast.ClassDef) -> None:
        """Remember the methods of a class and of its bases, without those that others take the place of."""
        if id(owner) in self._owners:
            return
        methods = self._owners[id(owner)] = []
        replaced: set[str] = set()
        for place, one in self._modules.with_bases(module, owner):
            own = [method for method in functions_of(one.body).values() if method.name not in replaced]
            methods.extend((place, method) for method in own)
            replaced |= {method.name for method in own if "super" not in _names_in(method)}

    def _named_methods(self) -> Iterator[_Place]:
        """The methods that some name on the way may mean."""
        for places in self._owners.values():
            for place, method in places:
                if id(method) not in self._places and (
                    method.name == "__init__" or method.name in self.names
                ):
                    yield place, method


def _names_in(function: Function) -> set[str]:
    """The names and attributes that a function uses."""
    nodes = ast.walk(function)
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    }
