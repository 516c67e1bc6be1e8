"""Terms of a backward pass that depend on how FSDP2 gathers units and reduces their gradients."""

from msgspec import Struct

from tuner.memory.fsdp import gathered_weights
from tuner.memory.fsdp.fsdp2 import sizes
from tuner.memory.fsdp.order import UnitOrder
from tuner.memory.fsdp.shared_backward import LayersBackward
from tuner.memory.fsdp.shared_terms import SharedTerms
from tuner.memory.layer.backward_stages import trained_parameters
from tuner.memory.ledger.stated_terms import Size
from tuner.memory.ledger.terms import Term
from tuner.workload import Engine


class Fsdp2Backward(Struct, frozen=True, dict=True):
    """FSDP2's own terms of one backward pass; ``layers`` has those of FSDP1 as well."""

    layers: LayersBackward

    @property
    def shared(self) -> SharedTerms:
        """The terms that do not depend on a layer."""
        return self.layers.shared

    @property
    def order(self) -> UnitOrder:
        """What is gathered and reduced at once."""
        return self.shared.order

    @property
    def engine(self) -> Engine:
        """The engine of the pass."""
        return self.order.engine

    # -- weights ------------------------------------------------------------------------

    @property
    def root_gather(self) -> Term | None:
        """The unit of the projection while it is gathered; None where it is whole already."""
        if self.shared.keeps_layers:
            return None
        copies = sizes.gather_copies(self.engine)
        return self.shared.sized("root_gather", sizes.head_gather_bytes, c=copies)

    @property
    def beside_logits(self) -> tuple[Term | None, ...]:
        """Weights there while what the model made of its logits is differentiated."""
        if self.order.separate_head and not self.shared.keeps_layers:
            size = gathered_weights.prefetched_unit_bytes
            return (self.shared.sized("prefetched_layer", size, U_b=self.order.head),)
        return self.shared.head_unit, self.shared.prefetched_layer

    # -- gradients ----------------------------------------------------------------------

    @property
    def root_gradient(self) -> Term | None:
        """Gradient of a projection in the root, which is reduced last of all."""
        return None if self.order.separate_head else self.shared.head_gradient

    @property
    def head_reduction(self) -> Term:
        """The projection's gradient while it is reduced without the embedding's."""
        return self._reduction(sizes.matrix_reduction_bytes, self.order.head)

    @property
    def last_reduction(self) -> Term:
        """The unit whose gradient is reduced last: the embedding's, or the root with it."""
        alone = self.order.separate_embedding
        size = sizes.matrix_reduction_bytes if alone else sizes.root_reduction_bytes
        return self._reduction(size, self.order.embedding)

    def _reduction(self, size: Size, unit: int) -> Term:
        return self.shared.sized("reduction", size, U=self.order.trained(unit))

    def unit_above(self, layer: int) -> Term:
        """The gradient of the unit above a layer, which its reduction has read; above -1 is the first."""
        return self.shared.sized("unit_above", sizes.read_gradient_bytes, U_a=self.order.above(layer))

    @property
    def first_layer_gradient(self) -> Term:
        """The gradient of the first layer, which its reduction has read."""
        first = trained_parameters(self.order.model, self.engine, 0)
        return self.shared.sized("unit_above", sizes.read_gradient_bytes, U_a=first)

    def gradients(self, waiting: int) -> tuple[Term, ...]:
        """Gradients of all but ``waiting`` parameters, and what the all-reduces have worked on."""
        reduced = self.layers.gradients(waiting)
        if not sizes.holds_all_reduced(self.engine, accumulates=self.layers.accumulates):
            return reduced
        return *reduced, self.shared.sized("all_reduced", sizes.all_reduced_bytes, U_k=waiting)

    # -- embedding ----------------------------------------------------------------------

    @property
    def embedding(self) -> tuple[Term | None, ...]:
        """The unit with the embedding when that is differentiated: its weights and their gradients."""
        name = "embedding_unit" if self.order.separate_embedding else "root_unit"
        unit = self.shared.sized(name, sizes.embedding_unit_bytes, U_e=self.order.embedding)
        return unit, self.layers.embedding_gradients

    @property
    def root_of_the_head(self) -> tuple[Term | None, ...]:
        """The root's weights and gradient where it has the projection and not the embedding."""
        return (self.shared.root, self.root_gradient) if self.order.separate_embedding else ()
