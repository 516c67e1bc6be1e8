"""The YAML files that a program merges by its own code, ``OmegaConf.merge(OmegaConf.load(...), ...)``.

The code is followed by its syntax tree with the arguments of the launch; nothing of it is run.

Source: OmegaConf 2.3 ``omegaconf.py`` (``load``, ``merge``, ``from_cli``, ``from_dotlist``, ``update``).
"""

import ast
import warnings
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tuner.errors import InputError
from tuner.files import note, read_bytes
from tuner.inputs.overrides import Argument
from tuner.inputs.program.asked_options import options_of, taken_options
from tuner.inputs.program.constants import Constants
from tuner.inputs.program.followed_code import FollowedCode
from tuner.inputs.program.layers import FileLayer, Layer
from tuner.units import MIB

_LOADS = b"OmegaConf.load"
_TRAINER = b"verl"


class MergedFiles(Struct, frozen=True, kw_only=True):
    """What a program hands on as its configuration, the lowest layer first."""

    layers: tuple[Layer, ...]


def merged_files(file: Path, arguments: Sequence[Argument]) -> MergedFiles | None:
    """The configuration that a program merges of files; None where its code does not say so.

    Args:
        file: of the program.
        arguments: that the launch gives it.
    """
    note([str(file)])
    try:
        text = read_bytes(file, most=MIB)
        if _LOADS not in text or _TRAINER not in text:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        return _merged(tree, str(file.absolute()), arguments)
    except (InputError, OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _merged(tree: ast.Module, file: str, arguments: Sequence[Argument]) -> MergedFiles | None:
    options = tuple(options_of(tree, Constants(tree, file)))
    code = FollowedCode(tree, file, taken_options(options, arguments), tuple(arguments))
    layers = code.handed()
    if layers is None or not any(isinstance(layer, FileLayer) for layer in layers):
        return None
    return MergedFiles(layers=layers)
