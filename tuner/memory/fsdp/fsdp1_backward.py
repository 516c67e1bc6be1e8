"""Terms of a backward pass under FSDP1; what FSDP2 has as well comes from its own."""

from functools import cached_property

from msgspec import Struct

from tuner.memory import model_states
from tuner.memory.fsdp import fsdp1_units, fsdp2_units, units
from tuner.memory.fsdp.fsdp2_backward import Fsdp2Backward
from tuner.memory.fsdp.fsdp2_terms import Fsdp2Terms
from tuner.memory.fsdp.fsdp2_units import Units
from tuner.memory.fsdp.terms import FsdpTerms
from tuner.memory.layer.backward_stages import trained_parameters
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.pass_terms import PassInput


class Fsdp1Backward(Struct, frozen=True, dict=True):
    """The terms of one backward pass."""

    given: PassInput

    @cached_property
    def same(self) -> Fsdp2Backward:
        """What is the same under FSDP2: activations, and the units."""
        return Fsdp2Backward(Fsdp2Terms(self.given))

    @property
    def shared(self) -> FsdpTerms:
        """The terms of a forward pass."""
        return self.same.terms.shared

    @property
    def units(self) -> Units:
        """What is gathered and reduced at once."""
        return self.same.terms.units

    def weights(self, layer: int) -> tuple[Term | None, ...]:
        """Weights that are whole in a layer's backward pass."""
        return () if units.works_in_place(self.given.engine) else self.same.weights(layer)

    def weights_below(self, layer: int) -> tuple[Term | None, ...]:
        """The same without the layer's own."""
        return tuple(term for term in self.weights(layer) if term is not None and term.name != "layer_unit")

    @property
    def accumulates(self) -> bool:
        """Whether there are reduced gradients of earlier micro-batches."""
        return self.given.micro_batches > 1 and not self.given.engine.deferred_gradient_sync

    def gradients(self, waiting: int) -> tuple[Term, ...]:
        """Gradients between the units' own reductions; ``waiting`` parameters have not been reduced."""
        given, terms = self.given, self.same.terms
        if self.accumulates:
            return (self.shared.gradients,)
        trained = model_states.trained_parameters(given.model, given.engine)
        units = {"U_k": waiting}
        reduced = terms.sized(
            "gradients",
            "b_s (ceil(N_t / W) - ceil(U_k / W))",
            fsdp2_units.upper_gradient_bytes,
            fsdp2_units.upper_gradient_bytes(trained, waiting, given.engine),
            item=Item.GRADIENTS,
            units=units,
        )
        if given.micro_batches == 1:
            return (reduced,)
        size = fsdp1_units.waiting_gradient_bytes(waiting, given.engine)
        source = fsdp1_units.waiting_gradient_bytes
        return reduced, terms.sized(
            "deferred_gradients", "b_a U_k", source, size, item=Item.GRADIENTS, units=units
        )

    @property
    def embedding(self) -> tuple[Term | None, ...]:
        """The root's weights and the embedding's gradients when that is differentiated."""
        weights, gradients = self.same.embedding_gradients
        return (None if units.works_in_place(self.given.engine) else weights), gradients

    def layer_reduction(self, layer: int) -> Term | None:
        """A layer's gradient while it is joined and reduced; None under LoRA, whose units are small."""
        engine = self.given.engine
        if engine.lora is not None:
            return None
        return self._reduction("layer_reduce", "U_g", trained_parameters(self.given.model, engine, layer))

    @property
    def root_reduction(self) -> Term | None:
        """The root's gradient while it is joined and reduced, last of all; None under LoRA."""
        if self.given.engine.lora is not None:
            return None
        return self._reduction("root_reduce", "U_r", self.units.head)

    def _reduction(self, name: str, symbol: str, unit: int) -> Term:
        engine, source = self.given.engine, fsdp1_units.reduction_bytes
        unsharded, casts = units.is_unsharded(engine), engine.reduce_dtype is not engine.stored_dtype
        share = symbol if unsharded else f"ceil({symbol} / W)"
        cast = fsdp1_units.casts_gradient(engine, accumulates=self.accumulates)
        parts = [
            f"b_c {symbol}",
            f"b_r {symbol}" if cast else "",
            "" if unsharded else f"b_r {share}",
            f"b_s {share}" if casts else "",
        ]
        joined = f"{2 if units.works_in_place(engine) else 3} b_c {symbol}"
        formula = f"max({joined}, {' + '.join(part for part in parts if part)})"
        size = source(unit, engine, accumulates=self.accumulates)
        return self.same.terms.sized(name, formula, source, size, units={symbol: unit})
