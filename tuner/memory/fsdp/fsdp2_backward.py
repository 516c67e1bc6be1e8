"""Terms of a backward pass under FSDP2: weights, gradients and activations of the layer that works."""

from functools import cached_property

from msgspec import Struct

from tuner.evidence import Evidence
from tuner.memory import model_states
from tuner.memory.fsdp import fsdp2_units
from tuner.memory.fsdp.fsdp2_terms import Fsdp2Terms
from tuner.memory.layer import activations, checkpointing
from tuner.memory.layer.backward_stages import BackwardStage, backward_stages
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.pass_terms import term
from tuner.workload import Checkpointing


class Fsdp2Backward(Struct, frozen=True, dict=True):
    """The terms of one backward pass."""

    terms: Fsdp2Terms

    # -- weights ------------------------------------------------------------------------

    def weights(self, layer: int) -> tuple[Term | None, ...]:
        """Weights that are whole in a layer's backward pass."""
        t = self.terms
        if t.shared.keeps_layers:
            return (t.whole("unsharded_model", "U_w", t.units.kept(layer)),)
        return (
            t.root,
            t.whole("layer_unit", "U_l", t.units.layers[layer]),
            t.whole("prefetched_layer", "U_b", t.units.below(layer)),
        )

    # -- gradients ----------------------------------------------------------------------

    @cached_property
    def root_gradient(self) -> Term | None:
        """Gradient of a projection in the root, which is reduced last of all."""
        return None if self.terms.units.separate_head else self.terms.shared.head_gradient

    @property
    def head_reduction(self) -> Term:
        """The projection's gradient while it is reduced without the embedding's."""
        units = self.terms.units
        return self._matrix_reduction("U_r", units.trained(units.head))

    @property
    def last_reduction(self) -> Term:
        """The unit whose gradient is reduced last: the embedding's, or the root with it."""
        units, engine = self.terms.units, self.terms.given.engine
        unit = units.trained(units.embedding)
        if units.separate_embedding:
            return self._matrix_reduction("U_e", unit)
        size = fsdp2_units.reduction_bytes(unit, engine)
        formula = "b_r U_e + max(b_c U_e, b_r ceil(U_e / W))"
        return self.terms.sized("reduction", formula, fsdp2_units.reduction_bytes, size, units={"U_e": unit})

    def _matrix_reduction(self, symbol: str, unit: int) -> Term:
        size = fsdp2_units.matrix_reduction_bytes(unit, self.terms.given.engine)
        formula, source = f"(b_c + b_r) {symbol} + b_r ceil({symbol} / W)", fsdp2_units.matrix_reduction_bytes
        return self.terms.sized("reduction", formula, source, size, units={symbol: unit})

    def reduced(self, unit: int) -> Term:
        """The gradient of the unit above, which its reduction has read."""
        size = fsdp2_units.reduced_bytes(unit, self.terms.given.engine)
        return self.terms.sized("unit_above", "b_r U_a", fsdp2_units.reduced_bytes, size, units={"U_a": unit})

    def other_gradients(self, waiting: int) -> tuple[Term, ...]:
        """Reduced gradients, of all but ``waiting`` parameters; and those of earlier micro-batches."""
        t = self.terms
        given = t.given
        trained = model_states.trained_parameters(given.model, given.engine)
        if self._accumulates:
            return (t.shared.gradients, *self._all_reduced(trained, waiting))
        reduced = fsdp2_units.upper_gradient_bytes(trained, waiting, given.engine)
        gradients = t.sized(
            "gradients",
            "b_s (ceil(N_t / W) - ceil(U_k / W))",
            fsdp2_units.upper_gradient_bytes,
            reduced,
            item=Item.GRADIENTS,
            units={"U_k": waiting},
        )
        held = self._all_reduced(trained, waiting)
        if given.micro_batches == 1:
            return gradients, *held
        source = fsdp2_units.deferred_gradient_bytes
        size = source(waiting, given.engine)
        deferred = t.sized(
            "deferred_gradients", "b_r U_k", source, size, item=Item.GRADIENTS, units={"U_k": waiting}
        )
        return gradients, deferred, *held

    @property
    def _accumulates(self) -> bool:
        """Whether gradients are added to reduced ones of earlier micro-batches."""
        return self.terms.given.micro_batches > 1 and not self.terms.given.engine.deferred_gradient_sync

    def _all_reduced(self, trained: int, waiting: int) -> tuple[Term, ...]:
        """What all-reduces have worked on, where that is something of its own."""
        engine, source = self.terms.given.engine, fsdp2_units.all_reduced_bytes
        if not fsdp2_units.holds_all_reduced(engine, accumulates=self._accumulates):
            return ()
        formula, size = "b_r (ceil(N_t / W) - ceil(U_k / W))", source(trained, waiting, engine)
        return (self.terms.sized("all_reduced", formula, source, size, units={"U_k": waiting}),)

    @property
    def beside_logits(self) -> tuple[Term | None, ...]:
        """Weights there while what the model made of its logits is differentiated."""
        t = self.terms
        if t.units.separate_head and not t.shared.keeps_layers:
            return (t.whole("prefetched_layer", "U_r", t.units.head),)
        return t.shared.root, t.shared.prefetched_layer

    @property
    def embedding_gradients(self) -> tuple[Term | None, ...]:
        """The unit with the embedding when that is differentiated: its weights and their gradients.

        A shared matrix has two gradients by then, which are added to a third.
        """
        t, units, engine = self.terms, self.terms.units, self.terms.given.engine
        matrix = units.trained(t.given.model.embedding_parameters)
        times = fsdp2_units.embedding_gradients(t.given.model)
        size = fsdp2_units.embedding_gradient_bytes(matrix, times, engine)
        source = fsdp2_units.embedding_gradient_bytes
        gradients = t.sized(
            "embedding_gradients", "n_g b_c U_v", source, size, units={"n_g": times, "U_v": matrix}
        )
        name = "embedding_unit" if units.separate_embedding else "root_unit"
        return t.whole(name, "U_e", units.embedding), gradients

    @property
    def root_of_the_head(self) -> tuple[Term | None, ...]:
        """The root's weights and gradient where it has the projection and not the embedding."""
        return (self.terms.root, self.root_gradient) if self.terms.units.separate_embedding else ()

    # -- a layer ------------------------------------------------------------------------

    def layer(self, layer: int) -> tuple[Term | None, ...]:
        """A layer's gradients and activations, at the stage of its backward pass that needs the most."""
        t, compute = self.terms, self.terms.given.engine.compute_dtype.bytes
        saved, stages = self._stages[t.kinds[layer]]
        tokens = t.given.tokens
        stage = max(stages, key=lambda each: compute * each.gradients + tokens * each.activations)
        gradient = t.whole("layer_gradient", "U_g", stage.gradients)
        if stage.activations < saved:
            source = "memory.layer.backward_stages.backward_stages"
            return gradient, t.activation("layer_remains", "a_e", stage.activations, source)
        none = t.given.engine.checkpointing is Checkpointing.NONE
        name = "saved_layer" if none else "recomputed_layer"
        counted = t.given.model.traced is not None
        module = "memory.layer.traced.layer_bytes" if counted else "memory.layer.activations."
        return (
            gradient,
            t.activation(name, "a_l", saved, module if counted else f"{module}layer_saved_bytes"),
            t.activation(
                "layer_backward",
                "a_g",
                stage.activations - saved,
                module if counted else f"{module}layer_backward_bytes",
            ),
        )

    @cached_property
    def _stages(self) -> dict[tuple[object, ...], tuple[int, tuple[BackwardStage, ...]]]:
        """What a layer of each kind saves per token, and the stages of its backward pass."""
        model, engine = self.terms.given.model, self.terms.given.engine
        return {
            self.terms.kinds[layer]: (
                activations.layer_saved_bytes(model, engine, layer),
                backward_stages(model, engine, layer),
            )
            for layer in self.terms.one_of_each_kind
        }

    def saved(self, layer: int) -> Term:
        """What the forward pass saved of the layers below, and of this one all but what is its own."""
        given = self.terms.given
        model, engine, tokens = given.model, given.engine, given.tokens
        source = "memory.layer.checkpointing.saved_token_bytes"
        held = checkpointing.layers_held_in_backward(model, engine, layer)
        if engine.checkpointing is Checkpointing.FULL:
            each = activations.layer_input_bytes(model, engine)
            numbers: dict[str, float] = {"n_i": held, "T": tokens, "a_i": each}
            size = held * tokens * each
            exact = Evidence.EXACT
            return term(
                Item.ACTIVATIONS, "layer_inputs", size, "n_i T a_i", exact, symbols=numbers, source=source
            )
        below = range(layer - held + 1, layer)
        each = sum(self._stages[self.terms.kinds[index]][0] for index in below)
        return self.terms.activation("saved_layers", "a_L", each, source)
