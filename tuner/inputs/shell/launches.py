"""The Python programs that a script starts, freed from what starts them.

``torchrun``, ``ray job submit``, ``accelerate launch``, ``uv run``, ``srun``, ``nohup`` and their like stand
in front of a program and say where it runs; the module or file behind them and its arguments are what
counts.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import Location
from tuner.files import is_there, repository_folders
from tuner.inputs.environment import EnvironmentVariable
from tuner.inputs.placed_packages import PlacedPackage
from tuner.inputs.shell.carriers import is_python
from tuner.inputs.shell.placements import Placements, Placing
from tuner.inputs.shell.side_servers import servers_near, side_server
from tuner.inputs.shell.started_program import StartedProgram
from tuner.inputs.shell.undecided_parts import UndecidedPart, together
from tuner.inputs.shell.values import Field, Text, text
from tuner.inputs.shell.visible_devices import meets_ray, visible_devices
from tuner.inputs.user_input import Count, OpenArgument, Processes, SideServer

_DISTRIBUTED = frozenset({"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"})
_STARTERS = frozenset({"torchrun", "accelerate", "deepspeed", "mpirun", "colossalai"})
_OF_TORCH = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
_PER_NODE = "--nproc-per-node"
_DIGITS = 6  # of a number of processes; longer ones are cut, and refused where the cluster is read
_TRAINER = re.compile(r"(?:verl|recipe)(?:\.[A-Za-z_]\w*)+")
_STARTS_RAY = re.compile(r"\bray\s+start\b")
_VALUED_OPTIONS = frozenset({"-X", "-W", "--check-hash-based-pycs"})


class Launch(Struct, frozen=True, kw_only=True):
    """One start of a Python program."""

    program: str  # a module's name, or the path of a file
    arguments: tuple[Field, ...]
    environment: tuple[tuple[str, Text], ...]
    location: Location
    certain: bool  # no branch that nobody knows leads to it
    processes: Processes  # as the options of what starts it say
    doubts: tuple[UndecidedPart, ...] = ()  # what is not run that would tell whether such a branch is taken
    folders: tuple[str, ...] = ()  # that it runs in and that Python looks for modules in, as far as is known
    variables: tuple[EnvironmentVariable, ...] = ()  # of its environment, as far as the script sets them
    earlier: "tuple[Launch, ...]" = ()  # Python programs without overrides that were started before it
    servers: tuple[SideServer, ...] = ()  # started before it, and perhaps on its GPUs
    placed: tuple[PlacedPackage, ...] = ()  # that were put where Python looks for modules before
    on_default_path: bool = True  # the way that is read of a script leads to it

    @property
    def hinges(self) -> tuple[UndecidedPart, ...]:
        """The tests that decide what it gets, or whether it is started."""
        causes = together(*(argument.text.undecided_parts for argument in self.arguments), self.doubts)
        return tuple(cause for cause in causes if cause.decides_way)


def launches(commands: Sequence[StartedProgram]) -> tuple[Launch, ...]:
    """The Python programs among the commands, in the order of the script."""
    started, servers, placings, installed = [], list[SideServer](), list[Placing](), list[str]()
    starts_ray = any(_STARTS_RAY.search(" ".join(texts(command.words))) for command in commands)
    ray_apart = any(meets_ray(command.environment, " ".join(texts(command.words))) for command in commands)
    for command in commands:
        server = side_server(command)
        if server is not None:
            servers.append(server)
        if command.placing is not None:
            placings.append(command.placing)
        installed += _existing(command)
        words = list(command.words)
        position = _program(words)
        if position is not None:
            position = _behind_wrapper(words, position)
            started.append(
                Launch(
                    program=str(words[position].text),
                    arguments=tuple(words[position + 1 :]),
                    environment=command.environment,
                    location=command.location,
                    certain=command.certain,
                    processes=_processes(words[:position], command, ray_apart),
                    doubts=command.doubts,
                    folders=tuple(dict.fromkeys((*command.folders, *installed))),
                    variables=_variables(command, starts_ray),
                    servers=servers_near(servers, command),
                    placed=_placed(placings, command),
                )
            )
    return tuple(started)


def _placed(placings: Sequence[Placing], command: StartedProgram) -> tuple[PlacedPackage, ...]:
    """The packages that were put where a program imports from, before it is started."""
    if not placings:
        return ()
    around = _around(command)

    def is_folder(path: str) -> bool:
        return any(is_there(above / path, Path.is_dir) for above in around)

    placements = Placements(placings, is_folder)
    return tuple(placements.packages(command.search))


def _existing(command: StartedProgram) -> Iterator[str]:
    """The folders that a command installs, where they lie around the script, with that of their sources."""
    for name in command.installs:
        known = name.rpartition("$")[2].partition("/")[2] if "$" in name else name
        places = (place for above in _around(command) for place in (above / known, above / known / "src"))
        yield from (str(place) for place in places if known and is_there(place, Path.is_dir))


def _around(command: StartedProgram) -> list[Path]:
    """The folders from which what a script names may be counted."""
    return list(repository_folders(Path(command.location.source).absolute().parent))


def _program(words: Sequence[Field]) -> int | None:
    """Where the module or file stands that is run; None where no Python program is."""
    by_uv = False
    for position, word in enumerate(words):
        argument = str(word.text)
        name = argument.rpartition("/")[2]
        by_uv = by_uv or name == "uv"
        if by_uv and (argument in ("-m", "--module") or argument.endswith(".py")):  # "uv run -m module"
            return _module_or_file(words, position)
        if is_python(word) or _is_variable_of_python(word):
            return _behind_python(words, position + 1)
        if name in _STARTERS:
            return _module_or_file(words, position + 1)
        if "=" in argument and "." in argument.partition("=")[0]:
            return None  # an override already: no program stands behind it
    return None


def _behind_wrapper(words: Sequence[Field], position: int) -> int:
    """Where the trainer stands that another module starts: ``-m package.launch verl.trainer.main_ppo``."""
    following = str(words[position + 1].text) if position + 1 < len(words) else ""
    return position + 1 if _TRAINER.fullmatch(following) else position


def _is_variable_of_python(word: Field) -> bool:
    unknown = word.text.unknowns
    return len(unknown) == 1 and len(word.text.pieces) == 1 and "python" in unknown[0].name.lower()


def _behind_python(words: Sequence[Field], start: int) -> int | None:
    position = start
    while position < len(words):
        argument = str(words[position].text)
        if argument == "-m":
            if position + 1 >= len(words):
                return None
            module = str(words[position + 1].text)
            return _module_or_file(words, position + 2) if module in _DISTRIBUTED else position + 1
        if argument == "-c":
            return None
        if is_python(words[position]):  # what stood in front only carries it, a container by its name
            position += 1
            continue
        if not argument.startswith("-"):
            return position
        position += 2 if argument in _VALUED_OPTIONS else 1
    return None


def _module_or_file(words: Sequence[Field], start: int) -> int | None:
    """Behind a starter's own options: ``-m module``, or the first file of Python."""
    for position in range(start, len(words)):
        argument = str(words[position].text)
        if argument in ("-m", "--module") and position + 1 < len(words):
            return position + 1
        if argument.endswith(".py"):
            return position
    return None


def _variables(command: StartedProgram, starts_ray: bool) -> tuple[EnvironmentVariable, ...]:
    """A program's variables; a Ray that its script starts is taken to have what the shell exports."""
    return tuple(replace(one, of_ray=True) for one in command.variables) if starts_ray else command.variables


def _processes(words: Sequence[Field], command: StartedProgram, ray_apart: bool) -> Processes:
    """What the options in front of a program say: ``--nproc_per_node=8``, ``--nnodes 2``.

    PyTorch's launcher starts one process on a node where it is not told how many: its option's default.
    """
    typed = ((str(word.text).partition("=")[0], text(str(word.text).partition("=")[2])) for word in words)
    per_node = _count(words, _PER_NODE)
    launcher = next((word for word in words if str(word.text).rpartition("/")[2] in _OF_TORCH), None)
    if launcher is not None and not any(_option(word) == _PER_NODE for word in words):
        per_node = Count(value=1, text=str(launcher.text), location=launcher.location, told=False)
    return Processes(
        per_node=per_node,
        nodes=_count(words, "--nnodes"),
        visible=visible_devices((*command.environment, *typed), command.location),
        ray_apart=ray_apart,
        open_per_node=_open_count(words, _PER_NODE) if per_node is None else None,
    )


def _option(word: Field) -> str:
    return str(word.text).partition("=")[0].replace("_", "-")


def _count(words: Sequence[Field], name: str) -> Count | None:
    """The number of an option, the last one where there are several; None for ``auto`` or a range."""
    count = None
    for word, following in zip(words, (*words[1:], None), strict=True):
        option, equals, value = str(word.text).partition("=")
        if option.replace("_", "-") != name:
            continue
        value = value if equals or following is None else str(following.text)
        if value.isdecimal() and int(value[:_DIGITS]) > 0:
            count = Count(
                value=int(value[:_DIGITS]), text=f"torchrun {option}={value}", location=word.location
            )
    return count


def _open_count(words: Sequence[Field], name: str) -> OpenArgument | None:
    """The number of an option that only a run would tell; None of a word for it, such as ``auto``."""
    for word, following in zip(words, (*words[1:], None), strict=True):
        if _option(word) != name:
            continue
        value = word if "=" in str(word.text) or following is None else following
        if str(word.text).endswith("="):  # for want of an argument of the script
            return OpenArgument(key=str(word.text)[:-1], text="", name="", location=word.location)
        for unknown in value.text.unknowns:
            return OpenArgument(
                key=str(word.text).partition("=")[0],
                text=unknown.text,
                name=unknown.name,
                location=word.location,
            )
    return None


def texts(fields: Sequence[Field]) -> Iterator[str]:
    """The words as they stand, with the names of what is unknown in them."""
    return (str(field.text) for field in fields)
