"""The configuration of a launch whose program merges YAML files by its own code, and has Hydra compose none.

Such a program hands on what its files and arguments say, and none of the trainer's defaults.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import Location
from tuner.files import is_there
from tuner.inputs.overrides import Argument, Arguments, Override, OverrideKind
from tuner.inputs.program.find import file_of_program
from tuner.inputs.program.hydra import read_program
from tuner.inputs.program.layers import ArgumentsLayer, FileLayer, Layer, UnreadLayer, ValueLayer
from tuner.inputs.program.merged_files import merged_files
from tuner.inputs.tree import Tree, dotted, leaves, merged
from tuner.inputs.user_input import MissingConfiguration
from tuner.inputs.yaml_file import Document, read_yaml
from tuner.language import _
from tuner.shown_paths import shown_path
from tuner.trainers.verl.forks.translate import dotlist

_OF_HYDRA = "defaults"  # a list that OmegaConf reads as any other and nobody follows


class MergedByProgram(Struct, frozen=True, kw_only=True):
    """What a program lays together, as far as its files are here."""

    laid: Document | None  # all files and values on one another; None where one of them is not known
    arguments: Arguments  # what is laid on it
    missing: MissingConfiguration | None = None


def merged_by_program(
    program: str, given: Sequence[Argument], starts: Sequence[FilePath]
) -> MergedByProgram | None:
    """The configuration that a program merges itself; None where its code does not say so.

    Args:
        program: a module, or the path of a file; empty where nobody says.
        given: its arguments.
        starts: the folders in which it and its files are looked for, the one that decides first.

    Raises:
        InputError: one of its files is malformed, or an argument has no key.
    """
    file = file_of_program(program, starts) if program else None
    if file is None or read_program(file).config is not None:
        return None
    laid = merged_files(file, given)
    return None if laid is None else _laid(laid.layers, file, starts)


def _laid(layers: Sequence[Layer], program: FilePath, starts: Sequence[FilePath]) -> MergedByProgram:
    documents, overrides = list[Document](), list[Override]()
    for layer in layers:
        if isinstance(layer, ArgumentsLayer):
            overrides += _added(layer.arguments)
            continue
        document = _document(layer, program, starts)
        if isinstance(document, MissingConfiguration):
            return MergedByProgram(laid=None, arguments=_of(_arguments(layers)), missing=document)
        if overrides:  # it is laid on the arguments
            overrides += _as_overrides(document)
        else:
            documents.append(document)
    return MergedByProgram(laid=_on_one_another(documents), arguments=_of(overrides))


def _document(
    layer: FileLayer | ValueLayer | UnreadLayer, program: FilePath, starts: Sequence[FilePath]
) -> Document | MissingConfiguration:
    """What a layer says; what is missing where it cannot be read."""
    place = Location(source=str(program), line=None if isinstance(layer, FileLayer) else layer.line)
    if isinstance(layer, UnreadLayer):
        reason = _("{program} lays it together by its own code, and only a run tells {code}").format(
            program=shown_path(str(program)), code=layer.text
        )
        return MissingConfiguration(name="", looked_in=(), reason=reason, location=place)
    if isinstance(layer, ValueLayer):
        locations = {path: place for path, _value in leaves(layer.tree)}
        return Document(source=str(program), tree=layer.tree, locations=locations)
    places = [start / layer.path for start in (*starts, program.parent)]
    file = next((file for file in places if is_there(file, FilePath.is_file)), None)
    if file is not None:
        return read_yaml(file)
    looked_in = tuple(dict.fromkeys(str(place.parent) for place in places))
    return MissingConfiguration(name=layer.path, looked_in=looked_in, reason="", location=place)


def _on_one_another(documents: Sequence[Document]) -> Document:
    """The documents as one, which is named by the last of them."""
    tree: Tree = {}
    locations = {}
    for document in documents:
        tree = merged(tree, document.tree)
        locations.update(document.locations)
    tree.pop(_OF_HYDRA, None)
    return Document(source=documents[-1].source, tree=tree, locations=locations)


def _arguments(layers: Sequence[Layer]) -> Iterator[Override]:
    for layer in layers:
        if isinstance(layer, ArgumentsLayer):
            yield from _added(layer.arguments)


def _added(arguments: Sequence[Argument]) -> Iterator[Override]:
    """Arguments of the form key=value, which OmegaConf adds where nothing has their keys."""
    given = [one for one in arguments if "=" in one.text and not one.text.startswith("-")]
    return (replace(override, kind=OverrideKind.FORCE_ADD) for override in dotlist(given))


def _as_overrides(document: Document) -> Iterator[Override]:
    for path, value in leaves(document.tree):
        yield Override(
            key=dotted(path),
            package=None,
            kind=OverrideKind.FORCE_ADD,
            value=value,
            text=f"{dotted(path)}={value}",
            location=document.location(*path),
        )


def _of(overrides: Iterator[Override] | Sequence[Override]) -> Arguments:
    return Arguments(overrides=tuple(overrides), config_name=None)
