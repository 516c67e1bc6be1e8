"""Whether a key acts in the code that a launch would run as the release says that it does.

A function that is word for word that of some release does. One that was changed does where it still has the
words that a proposal rests on, and keeps nothing of the size of a micro-batch besides.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from tuner.evidence import ChangedCode
from tuner.trainers.verl.code_of_keys.digest import (
    FORWARDS,
    PASS,
    calls_model,
    digest,
    functions,
    sizes,
    words,
)
from tuner.trainers.verl.code_of_keys.digest import Function as Node
from tuner.trainers.verl.code_of_keys.own_classes import (
    OwnClass,
    calls_super,
    classes_in,
    helpers,
    methods,
    used_files,
)
from tuner.trainers.verl.code_of_keys.released import ReleasedFunction, released
from tuner.trainers.verl.code_of_keys.rows import FUNCTIONS, KeyRow, row_of
from tuner.trainers.verl.code_of_keys.trainer_function import TrainerFunction
from tuner.trainers.verl.module_names import is_released
from tuner.trainers.verl.trainer_code.statements import parsed

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode
    from tuner.trainers.verl.trainer_code.project_code import ProjectCode

_NAME, _WORKER = "verl", "Worker"


class RunningCode:
    """The files that a launch would run, read when something is first asked of them.

    Args:
        copy: of the trainer; None where the release's own runs.
        project: a program that is no part of the trainer, with the modules that it imports.
        program: the module or file that is started.
    """

    def __init__(self, copy: "TrainerCode | None", project: "ProjectCode | None", program: str) -> None:
        self._copy, self._project, self._program = copy, project, program

    def __reduce__(self) -> tuple[object, ...]:
        """Another process reads it for itself."""
        return type(self), (self._copy, self._project, self._program)

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The texts of all files by their paths."""
        of_copy = {} if self._copy is None else self._copy.texts
        return {**of_copy, **self.project_texts}

    @cached_property
    def project_texts(self) -> Mapping[str, str]:
        """The texts of the program that is no part of the trainer, by their paths."""
        return {} if self._project is None else self._project.texts

    @property
    def package(self) -> str:
        """The folder that stands for the trainer's; empty where that is not here."""
        return "" if self._copy is None else self._copy.root.name

    @cached_property
    def start(self) -> tuple[str, ...]:
        """The file of the program, and those of the trainer that it comes to."""
        program = self._program.removesuffix(".py").replace(".", "/")
        if self.package and program.startswith(f"{_NAME}/"):
            program = f"{self.package}{program[len(_NAME) :]}"
        files = {f"{self.package}/{function.file}" for function in FUNCTIONS}
        return (*(file for file in self.texts if file.removesuffix(".py") == program), *files)


class _RunFunction(Struct, frozen=True, kw_only=True, dict=True):
    """A function of the running code that stands for one of the trainer's."""

    file: str
    node: Node
    of_class: Mapping[str, Node]

    @cached_property
    def with_helpers(self) -> tuple[Node, ...]:
        """With the methods that it calls and that no row names: what those do is asked apart."""
        unnamed = {name: node for name, node in self.of_class.items() if name not in _NAMED}
        return tuple(helpers(self.node, unnamed))

    @property
    def place(self) -> str:
        return f"{self.file}:{self.node.lineno} ({self.node.name})"


class CodeOfKeys:
    """What keys stand on in the code of one launch.

    Args:
        code: that it would run.
        version: the release that it is read as.
        engines: that train and generate.
        engine_workers: whether the model engines run the models.
    """

    def __init__(
        self, code: RunningCode, version: str, engines: frozenset[str], *, engine_workers: bool
    ) -> None:
        self._code, self._version, self._engines, self._engine = code, version, engines, engine_workers
        self._release = f"verl {version}"
        self._trees: dict[str, ast.Module | None] = {}
        self._known: dict[KeyRow, ChangedCode | None] = {}

    def __reduce__(self) -> tuple[object, ...]:
        """Another process reads the code for itself."""
        return _code_of_keys, (self._code, self._version, self._engines, self._engine)

    def lacks(self, key: str) -> ChangedCode | None:
        """Where the code does otherwise than the release in what a key rests on; None where it does not."""
        row = row_of(key)
        if row is None:
            return None
        if row not in self._known:
            try:
                self._known[row] = next(self._changes(row), None)
            except RecursionError:  # an expression that is nested too deep to be compared
                self._known[row] = None
        return self._known[row]

    def _changes(self, row: KeyRow) -> Iterator[ChangedCode]:
        for function, rests in row.rests:
            release = released()[function.key]
            if function.engine not in (None, self._engine) or not function.engines <= self._engines:
                continue
            if not release.is_in(self._version):
                continue
            for one in self._in_place_of(function):
                if isinstance(one, str):
                    if release.is_around(self._version):  # else another time's code does it elsewhere
                        yield ChangedCode(place=one, release=self._release)
                elif digest(one.node) not in release.digests and self._touches(one, row, function, rests):
                    yield ChangedCode(place=one.place, release=self._release)
        if row.by_size or row.at_model:
            forward = [one for one, _rests in row.rests if one.name in FORWARDS]
            yield from (change for one in forward for change in self._passes_beside(one))

    def _passes_beside(self, forward: TrainerFunction) -> Iterator[ChangedCode]:
        """Functions of no release that run its forward pass and keep something wide of what that returns."""
        if not released()[forward.key].is_in(self._version) or forward.engine not in (None, self._engine):
            return
        copied = f"{self._code.package}/{forward.file}" if self._code.package else ""
        own = {one.file for one in self._classes.get(forward.owner, ())}
        for file in dict.fromkeys((copied, *sorted(own), *self._code.project_texts)):
            text = self._code.texts.get(file, "")
            tree = self._tree(file) if f".{forward.name}(" in text else None
            for name, node in () if tree is None else functions(tree.body):
                kept = sizes(node) if forward.name in words(node) else ()
                wide = [word for word in kept if not word.startswith(PASS) and not self._may_keep(word)]
                if wide and name.rpartition(".")[2] not in _NAMED and self._is_called(node.name):
                    yield ChangedCode(place=f"{file}:{node.lineno} ({node.name})", release=self._release)

    def _may_keep(self, word: str) -> bool:
        """Whether a function of the release that runs the model has a word of something wide."""
        return any(one.may_have(word, self._version) for one in released().values())

    def _is_called(self, name: str) -> bool:
        return any(f".{name}(" in text for text in self._code.texts.values())

    def _touches(
        self, one: _RunFunction, row: KeyRow, function: TrainerFunction, rests: tuple[str, ...]
    ) -> bool:
        """Whether a changed function may do otherwise in what a row rests on."""
        release = released()[function.key]
        said = frozenset().union(*map(words, one.with_helpers))
        if row.at_model:
            asks = row.words[0]
            if any(calls_model(node) and asks not in words(node) for node in one.with_helpers):
                return True
        if row.by_size:
            kept = frozenset().union(*map(sizes, one.with_helpers))
            having = [release, *self._of_the_step(function)]
            if any(not any(one.may_have(word, self._version) for one in having) for word in kept):
                return True
        if calls_super(one.with_helpers, function.name):
            return False
        lost = [group for group in rests if said.isdisjoint(group.split("|"))]
        lost = [group for group in lost if release.keeps(group, self._version)]
        if lost and function.owner.endswith(_WORKER):  # which may hand settings on by another method
            said = frozenset().union(*map(words, one.of_class.values()))
        return any(said.isdisjoint(group.split("|")) for group in lost)

    def _of_the_step(self, function: TrainerFunction) -> list[ReleasedFunction]:
        """What prepares and takes apart a forward step in its class, which an own step may do itself."""
        if function.name not in FORWARDS:
            return []
        prefix = f"{function.file}:{function.owner}."
        return [one for key, one in released().items() if key.startswith(prefix)]

    def _in_place_of(self, function: TrainerFunction) -> Iterator[_RunFunction | str]:
        """What runs in its place, or the file whose class has none such; nothing where it runs itself."""
        classes = [one for one in self._classes.get(function.owner, ()) if function.may_be_of(one.file)]
        own = [one for one in classes if function.name in self._methods(one)]
        yield from (self._in_own(one, function.name) for one in own)
        copied = [one for one in classes if one.name == function.owner and function.owner not in one.bases]
        if own:
            return
        if copied:
            if not any(base.strip() and base not in _ROOTS for one in copied for base in one.bases):
                yield copied[0].file
            return
        file = f"{self._code.package}/{function.file}"
        if not self._code.package or file not in self._code.texts:
            return
        tree = self._tree(file)
        of_class = {} if tree is None else methods(tree, function.owner)
        if function.name in of_class:
            yield _RunFunction(file=file, node=of_class[function.name], of_class=of_class)
        elif of_class:
            yield file

    def _in_own(self, one: OwnClass, name: str) -> _RunFunction:
        of_class = self._methods(one)
        return _RunFunction(file=one.file, node=of_class[name], of_class=of_class)

    def _methods(self, one: OwnClass) -> dict[str, Node]:
        tree = self._tree(one.file)
        return {} if tree is None else methods(tree, one.name)

    @cached_property
    def _classes(self) -> dict[str, list[OwnClass]]:
        """The classes beside the trainer's own files that run in place of its classes, by those."""
        texts = self._code.texts
        every: dict[str, list[OwnClass]] = {}
        for one in classes_in(texts):
            if not self._is_released(one.file):
                every.setdefault(one.name, []).append(one)
        owners = {function.owner for function in FUNCTIONS}
        standing = {
            owner: [one for ones in every.values() for one in ones if one.builds_on(owner, every)]
            for owner in owners
        }
        candidates = {one.file for ones in standing.values() for one in ones}
        start = (*self._code.start, *self._code.project_texts)
        used = {*self._code.project_texts, *used_files(candidates, texts, start)}
        return {owner: [one for one in ones if one.file in used] for owner, ones in standing.items()}

    def _is_released(self, file: str) -> bool:
        """Whether a file is one of the trainer's, which runs in the place of no other of it."""
        inside = file.removeprefix(f"{self._code.package}/")
        if not self._code.package or inside == file:
            return False
        return is_released(f"{_NAME}/{inside}".removesuffix(".py").replace("/", "."))

    def _tree(self, file: str) -> ast.Module | None:
        if file not in self._trees:
            self._trees[file] = parsed(self._code.texts[file])
        return self._trees[file]


def _code_of_keys(
    code: RunningCode,
    version: str,
    engines: frozenset[str],
    engine_workers: bool,
) -> CodeOfKeys:
    return CodeOfKeys(code, version, engines, engine_workers=engine_workers)


_ROOTS = frozenset({"object", "ABC", "Worker", "DistProfilerExtension", "BaseRollout", "BasePPOActor"}) | {
    *("BasePPOCritic", "BaseShardingManager", "BaseEngine", "metaclass=ABCMeta", "AsyncServerBase")
}
_NAMED = frozenset(function.name for function in FUNCTIONS)
