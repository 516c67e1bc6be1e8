"""Terms of a pass that depend on how FSDP1 gathers, reduces and frees its units."""

from functools import cached_property

from msgspec import Struct

from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.fsdp import gathered_weights, per_token, units
from tuner.memory.fsdp.fsdp1 import sizes
from tuner.memory.fsdp.shared_backward import LayersBackward
from tuner.memory.fsdp.shared_terms import SharedTerms
from tuner.memory.layer import activations
from tuner.memory.layer.backward_stages import trained_parameters
from tuner.memory.ledger.stated_terms import Size
from tuner.memory.ledger.terms import Term
from tuner.model_shape import ModelShape
from tuner.workload import Engine


class Fsdp1Terms(Struct, frozen=True, dict=True):
    """FSDP1's own terms of one pass."""

    micro_batch: PassInput

    @cached_property
    def shared(self) -> SharedTerms:
        """The terms that FSDP2 has as well."""
        return SharedTerms(self.micro_batch)

    @cached_property
    def layers(self) -> LayersBackward:
        """What layers need in a backward pass, where that is the same under FSDP2."""
        return LayersBackward(self.shared)

    @property
    def model(self) -> ModelShape:
        """The model of the pass."""
        return self.micro_batch.model

    @property
    def engine(self) -> Engine:
        """The engine of the pass."""
        return self.micro_batch.engine

    # -- forward ------------------------------------------------------------------------

    @property
    def held_weights(self) -> Term | None:
        """Weights that the modules hold while those that were offloaded come back."""
        if not (self.engine.param_offload and units.has_held_weights(self.engine)):
            return None
        return self.shared.sized("held_weights", gathered_weights.whole_model_bytes)

    @property
    def fetched_before(self) -> Term | None:
        """What an earlier pass of one GPU fetched from the host, until a unit is fetched again."""
        return self.shared.whole_model if units.is_unsharded(self.engine) else None

    @property
    def root_and_share(self) -> Term | None:
        """The root unit and the cast of its share, from which it is gathered."""
        cast = sizes.cast_parameters(self.model, self.engine)
        return self.shared.gathered_weights("root_gather", sizes.root_gather_bytes, U_c=cast)

    @property
    def first_units(self) -> Term | None:
        """The root and the first layer, both being gathered."""
        if self.shared.keeps_layers:
            return None
        first, layer = self.shared.order.embedding, self.model.largest_layer_parameters
        return self.shared.gathered_weights("first_units", sizes.first_units_bytes, U_1=first, U_l=layer)

    @property
    def layer_units(self) -> Term | None:
        """The layer that works, and the one gathered ahead."""
        if self.shared.keeps_layers:
            return None
        layer = self.model.largest_layer_parameters
        return self.shared.gathered_weights("layer_units", sizes.layer_units_bytes, U_l=layer)

    @property
    def inside_layer(self) -> Term:
        """What one layer needs in a forward pass without gradients, the one that needs the most."""
        source = activations.largest_layer_forward_bytes
        size = source(self.model, self.engine)
        return self.shared.in_layer("layer_forward", per_token.layer_forward_bytes, source, a_f=size)

    @property
    def root_between_passes(self) -> Term | None:
        """The root unit, which stays whole from forward to backward; one GPU alone frees it."""
        return None if units.is_unsharded(self.engine) else self.shared.root

    # -- backward -----------------------------------------------------------------------

    @property
    def root_gather(self) -> Term | None:
        """The root unit while it is gathered for the backward pass."""
        if self.shared.keeps_layers:
            return None
        return self.shared.gathered_weights("root_gather", gathered_weights.head_unit_bytes)

    def weights(self, layer: int) -> tuple[Term | None, ...]:
        """Weights that are whole in a layer's backward pass."""
        return () if units.works_in_place(self.engine) else self.layers.weights(layer)

    def weights_around(self, layer: int) -> tuple[Term | None, ...]:
        """Weights that are whole in a layer's backward pass, without the layer's own."""
        return () if units.works_in_place(self.engine) else self.layers.weights_around(layer)

    @property
    def embedding(self) -> tuple[Term | None, ...]:
        """The root's weights and the embedding's gradients when that is differentiated."""
        root = self.shared.gathered_weights("root_unit", gathered_weights.head_unit_bytes)
        return root, self.layers.embedding_gradients

    def layer_reduction(self, layer: int) -> Term | None:
        """A layer's gradient while it is joined and reduced; None under LoRA, whose units are small."""
        if self.engine.lora is not None:
            return None
        return self._reduction("layer_reduce", trained_parameters(self.model, self.engine, layer))

    @property
    def root_reduction(self) -> Term | None:
        """The root's gradient while it is joined and reduced, last of all; None under LoRA."""
        if self.engine.lora is not None:
            return None
        return self._reduction("root_reduce", self.shared.order.head)

    def _reduction(self, name: str, unit: int) -> Term:
        unsharded = units.is_unsharded(self.engine)
        size: Size = sizes.unsharded_reduction_bytes if unsharded else sizes.sharded_reduction_bytes
        return self.shared.sized(
            name,
            size,
            U=unit,
            b_g=sizes.cast_gradient_bytes(self.engine, accumulates=self.layers.accumulates),
            b_t=sizes.cast_share_bytes(self.engine),
            n_j=sizes.joined_tensors(self.engine),
        )
