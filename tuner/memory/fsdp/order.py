"""The units of a model in the order of its passes: what comes before a layer, above it, below it."""

from functools import cached_property, lru_cache

from msgspec import Struct

from tuner.memory.fsdp import units
from tuner.memory.layer.activations import layer_kinds
from tuner.memory.layer.backward_stages import trained_parameters
from tuner.model_shape import ModelShape
from tuner.workload import Engine

#: The moment when the last block of a vision tower is differentiated.
TOWER_BACKWARD = "tower_backward"


class UnitOrder(Struct, frozen=True, dict=True):
    """The units of one model, in the order of the forward pass; a backward pass goes the other way."""

    model: ModelShape
    engine: Engine

    # -- units outside the layers ------------------------------------------------------

    @cached_property
    def separate_head(self) -> bool:
        """Whether the output projection is a unit of its own."""
        return units.wraps_head(self.model, self.engine)

    @cached_property
    def separate_embedding(self) -> bool:
        """Whether the embedding is a unit of its own; it is where the projection is."""
        return units.wraps_embedding(self.model, self.engine)

    @cached_property
    def head(self) -> int:
        """The unit that holds the output projection."""
        return units.head_unit_parameters(self.model, self.engine)

    @cached_property
    def embedding(self) -> int:
        """The unit that holds the embedding, the first to be gathered."""
        return units.first_unit_parameters(self.model, self.engine)

    @cached_property
    def last(self) -> int:
        """Parameters outside the layers whose backward pass comes after theirs."""
        alone = self.separate_embedding and not self.separate_head
        return (self.embedding + self.head if alone else self.embedding) + self.tower_root

    @property
    def tower_block(self) -> int:
        """A block of a vision tower that runs before the first layer; 0 without one."""
        tower = self.model.tower
        return 0 if tower is None or self.engine.idle_tower else tower.block_unit

    @cached_property
    def tower_root(self) -> int:
        """What a vision tower leaves in a root that has nothing else but norms; 0 in a larger one."""
        return units.tower_root_parameters(self.model) if self.separate_head else 0

    def trained(self, count: int) -> int:
        """``count`` parameters outside the layers, as far as they have gradients.

        More than a matrix is the root, where a tower that is not trained has its merger.
        """
        if self.engine.lora is not None:
            return 0
        root = not self.engine.trains_tower and count > self.model.embedding_parameters
        return count - (units.tower_root_parameters(self.model) if root else 0)

    @cached_property
    def tower(self) -> int:
        """Trained parameters of the blocks of a vision tower, whose backward pass comes after the layers'."""
        trains = self.engine.lora is None and self.engine.trains_tower
        return units.tower_block_parameters(self.model) if trains else 0

    # -- layers ------------------------------------------------------------------------

    @property
    def layers(self) -> tuple[int, ...]:
        """Parameters of every decoder layer."""
        return self.model.parameters_by_layer

    @cached_property
    def kinds(self) -> tuple[tuple[object, ...], ...]:
        """The kind of every layer; layers of one kind need the same."""
        return layer_kinds(self.model)

    @cached_property
    def one_of_each_kind(self) -> tuple[int, ...]:
        """The first layer of every kind."""
        return tuple(self.kinds.index(kind) for kind in dict.fromkeys(self.kinds))

    @cached_property
    def extremes(self) -> tuple[int, ...]:
        """Layers that can need the most: of all that are alike, with their neighbours, the first and last."""
        return _extremes(self.kinds)

    def before(self, layer: int) -> int:
        """The unit gathered before a layer in a forward pass."""
        return self.layers[layer - 1] if layer else self.tower_block or self.embedding

    def above(self, layer: int) -> int:
        """Trained parameters of the unit whose backward pass comes before a layer's; -1: the embedding's."""
        if layer < 0 and self.tower:
            return self.tower_block
        if layer + 1 < self.model.layers:
            return trained_parameters(self.model, self.engine, layer + 1)
        return self.trained(self.head) if self.separate_head else 0

    def below(self, layer: int) -> int:
        """The unit gathered ahead in the backward pass of a layer; the root is whole already."""
        if layer or self.tower_block:
            return self.layers[layer - 1] if layer else self.tower_block
        return self.embedding if self.separate_embedding else 0

    def waiting(self, layer: int) -> int:
        """Trained parameters whose gradients are not reduced while a layer's backward pass runs."""
        if self.engine.lora is not None:
            return (layer + 1) * trained_parameters(self.model, self.engine, layer)
        return sum(self.layers[: layer + 1]) + self.tower + self.trained(self.last)

    def whole_parameters(self, layer: int) -> int:
        """Parameters that are whole in a layer's backward pass where the forward pass frees nothing."""
        tower = units.tower_block_parameters(self.model)
        return sum(self.layers[: layer + 1]) + tower + self.last


@lru_cache(maxsize=256)
def _extremes(kinds: tuple[object, ...]) -> tuple[int, ...]:
    alike: dict[tuple[object, ...], list[int]] = {}
    all_kinds = (None, *kinds, None)
    for layer in range(len(kinds)):
        alike.setdefault(all_kinds[layer : layer + 3], []).append(layer)
    return tuple(sorted({end for layers in alike.values() for end in (layers[0], layers[-1])}))
