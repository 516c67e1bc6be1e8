"""Finds the configurations that a launch names, from the folder that it lies in and those above."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from tuner.errors import InputError
from tuner.files import is_there
from tuner.inputs.overrides import Argument
from tuner.inputs.tree import merged
from tuner.inputs.yaml_file import Document, read_yaml
from tuner.language import _
from tuner.trainers.verl.forks.fork import Fork

_FOLDERS_UP = 8
_LEAST_PARTS = 2  # of a path that are enough to tell a folder of the tree
#: Of programs that name theirs in the code, and of verl's own.
CONFIG_FOLDERS = ("config", "configs", "conf", ".", "verl/trainer/config")


def beside_launch(name: str, folder: str) -> Document | None:
    """The configuration of a name in a folder of configurations near a launch; None where there is none."""
    for start in _starts(folder):
        for place in CONFIG_FOLDERS:
            file = start / place / f"{name}.yaml"
            if is_there(file, Path.is_file):
                return read_yaml(file)
    return None


def below_clone(name: str, path: str, starts: Iterable[Path]) -> Document | None:
    """The configuration of a name in the folder that a launch names by a path to its own clone.

    Of the path counts what lies in the tree: the folders before it lead to where somebody has cloned it.
    """
    parts = path.rpartition("$")[2].strip("/").split("/")
    for start in starts:
        for first in range(len(parts) - _LEAST_PARTS + 1):
            file = start.joinpath(*parts[first:], f"{name}.yaml")
            if is_there(file, Path.is_file):
                return read_yaml(file)
    return None


def with_config_file(
    fork: Fork, document: Document | None, given: Sequence[Argument], folder: str
) -> tuple[Document | None, list[Argument]]:
    """A launch with the file that one of its arguments names, and without that argument.

    Raises:
        InputError: the file is not found.
    """
    option = f"{fork.config_argument}="
    rest = [argument for argument in given if not argument.text.startswith(option)]
    naming = [argument for argument in given if argument.text.startswith(option)]
    if not naming:
        return document, rest
    name = naming[-1].text.removeprefix(option).strip("'\"")
    for start in _starts(folder):
        file = start / name
        if is_there(file, Path.is_file):
            named = read_yaml(file)
            return named if document is None else _on(named, document), rest
    raise InputError(
        _("there is no file {name} here or in the folders above").format(name=name),
        location=naming[-1].location,
        hint=_("leave {option} out to rest on the defaults of {fork}, or give the file itself").format(
            option=option, fork=fork.name
        ),
    )


def _on(low: Document, high: Document) -> Document:
    return replace(high, tree=merged(low.tree, high.tree), locations={**low.locations, **high.locations})


def _starts(folder: str) -> Iterator[Path]:
    here = Path(folder).absolute() if folder else Path.cwd()
    yield from dict.fromkeys((Path.cwd(), here, *list(here.parents)[:_FOLDERS_UP]))
