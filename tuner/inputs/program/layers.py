"""What a program lays on one another to make its configuration: files, arguments, values of its code."""

from msgspec import Struct

from tuner.inputs.overrides import Argument
from tuner.inputs.tree import Tree


class FileLayer(Struct, frozen=True, kw_only=True):
    """A YAML file, as the code or the launch names it."""

    path: str


class ArgumentsLayer(Struct, frozen=True, kw_only=True):
    """Arguments of the launch, each of the form key=value."""

    arguments: tuple[Argument, ...]


class ValueLayer(Struct, frozen=True, kw_only=True):
    """Values that the code itself sets."""

    tree: Tree
    line: int


class UnreadLayer(Struct, frozen=True, kw_only=True):
    """Something that only a run would tell."""

    text: str  # of the code
    line: int


Layer = FileLayer | ArgumentsLayer | ValueLayer | UnreadLayer
Laid = tuple[Layer, ...]


class LaidLayers(Struct, kw_only=True, eq=False):
    """A configuration as far as it is laid, the lowest layer first; code that sets a key changes it."""

    layers: Laid

    def on(self, *layers: Layer) -> "LaidLayers":
        """Another one with further layers on it."""
        return LaidLayers(layers=(*self.layers, *layers))

    def put(self, layer: Layer) -> None:
        """Lay a further layer on this one."""
        self.layers = (*self.layers, layer)
