"""Terms of a pass under FSDP1, and those that are the same under FSDP2.

The sizes of gathered weights and gradients are those of :mod:`tuner.memory.fsdp.units`, activations
those of :mod:`tuner.memory.layer.activations`. Here they get their names and their formulas.
"""

from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from tuner.evidence import Evidence
from tuner.memory import model_states
from tuner.memory.fsdp import units
from tuner.memory.head.terms import copies_term, head_term, logits_term
from tuner.memory.layer import activations, checkpointing
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.pass_terms import PassInput, term
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Checkpointing, Engine

_UNITS = "memory.fsdp.units"
_STATES = "memory.model_states"
# Where the activations of a traced model come from.
_TRACED = {
    **dict.fromkeys(("a_f", "a_g", "a_l"), "memory.layer.traced.layer_bytes"),
    "a_n": "memory.layer.traced.final_norm_bytes",
}


class FsdpTerms(Struct, frozen=True, dict=True):
    """The terms of one pass, each computed when a moment asks for it."""

    given: PassInput

    @cached_property
    def numbers(self) -> dict[str, float]:
        """The symbols of the formulas."""
        model, engine = self.given.model, self.given.engine
        return {
            "T": self.given.tokens,
            "V": model.vocab,
            "H": model.hidden,
            "N": model.parameters,
            "N_t": model_states.trained_parameters(model, engine),
            "W": engine.parallel.shard,
            "U_r": units.head_unit_parameters(model, engine),
            "U_c": units.cast_parameters(model, engine),
            "U_1": units.first_unit_parameters(model, engine),
            "U_l": model.largest_layer_parameters,
            "b_a": units.accumulated_dtype(engine).bytes,
            "b_c": engine.compute_dtype.bytes,
            "b_o": engine.optimizer_dtype.bytes,
            "b_r": engine.reduce_dtype.bytes,
            "b_s": engine.stored_dtype.bytes,
            "c": units.gather_copies(engine),
            "p": units.prefetched_layers(engine),
        }

    def _exact(self, item: Item, name: str, formula: str, source: str, size: int) -> Term:
        return term(item, name, size, formula, Evidence.EXACT, symbols=self.numbers, source=source)

    # -- gathered weights ---------------------------------------------------------------

    def _unit(self, name: str, formula: str, size_of: Callable[[ModelShape, Engine], int]) -> Term:
        """A term of :mod:`tuner.memory.fsdp.units`."""
        size = size_of(self.given.model, self.given.engine)
        return self._exact(Item.UNSHARDED, name, formula, f"{_UNITS}.{size_of.__name__}", size)

    def _gathered(self, name: str, formula: str, size_of: Callable[[ModelShape, Engine], int]) -> Term | None:
        """The same of gathered weights; None where units work with the stored ones."""
        if units.works_in_place(self.given.engine):
            return None
        return self._unit(name, formula, size_of)

    @property
    def keeps_layers(self) -> bool:
        """Whether the forward pass leaves all layers whole."""
        return units.keeps_layers(self.given.engine)

    @cached_property
    def whole_model(self) -> Term | None:
        """All weights, where layers stay whole after the forward pass."""
        if not self.keeps_layers:
            return None
        return self._unit("unsharded_model", "b_c N", units.whole_model_bytes)

    @property
    def held_weights(self) -> Term | None:
        """Weights that the modules hold while those that were offloaded come back."""
        engine = self.given.engine
        if not (engine.param_offload and units.has_held_weights(engine)):
            return None
        return self._unit("held_weights", "b_c N", units.whole_model_bytes)

    @property
    def fetched_before(self) -> Term | None:
        """What an earlier pass of one GPU fetched from the host, until a unit is fetched again."""
        return self.whole_model if units.is_unsharded(self.given.engine) else None

    @cached_property
    def root_gathered(self) -> Term | None:
        """The unit of the output projection, whole."""
        return self._gathered("root_unit", "b_c U_r", units.head_gather_bytes)

    @property
    def root(self) -> Term | None:
        """The root unit where it is not part of a whole model already."""
        return None if self.keeps_layers else self.root_gathered

    @property
    def root_between_passes(self) -> Term | None:
        """FSDP1 keeps the root whole from forward to backward; FSDP2 frees it, and one GPU alone."""
        engine = self.given.engine
        keeps = engine.keeps_root if engine.backend is Backend.FSDP2 else not units.is_unsharded(engine)
        return self.root if keeps else None

    @property
    def root_gather(self) -> Term | None:
        """The same while it is gathered."""
        if self.keeps_layers:
            return None
        return self._gathered("root_gather", "c b_c U_r", units.root_gather_bytes)

    @property
    def gathered_root(self) -> Term | None:
        """The root unit and the cast of its share, from which it is gathered."""
        return self._gathered("root_gather", "b_c (U_r + U_c)", units.gathered_root_bytes)

    @property
    def first_units(self) -> Term | None:
        """The first unit and the first layer, both being gathered."""
        if self.keeps_layers:
            return None
        return self._gathered("first_units", "b_c (U_1 + U_l)", units.first_layer_gather_bytes)

    @property
    def layer_units(self) -> Term | None:
        """The layer that works, and the one gathered ahead."""
        if self.keeps_layers:
            return None
        return self._gathered("layer_units", "(1 + p) b_c U_l", units.layer_gather_bytes)

    @property
    def prefetched_layer(self) -> Term | None:
        """Backward prefetch: the layer below is gathered while this one works."""
        if self.keeps_layers:
            return None
        return self._gathered("prefetched_layer", "b_c U_l", units.layer_unit_bytes)

    # -- gradients ----------------------------------------------------------------------

    @cached_property
    def gradients(self) -> Term:
        """All gradients, reduced."""
        size = model_states.gradient_bytes(self.given.model, self.given.engine)
        source = f"{_STATES}.gradient_bytes"
        return self._exact(Item.GRADIENTS, "gradients", "b_s ceil(N_t / W)", source, size)

    @cached_property
    def earlier_gradients(self) -> Term | None:
        """Of the micro-batches before this one."""
        given = self.given
        if given.micro_batches == 1:
            return None
        if not given.engine.deferred_gradient_sync:
            return self.gradients
        size = units.deferred_gradient_bytes(given.model, given.engine)
        source = f"{_UNITS}.deferred_gradient_bytes"
        return self._exact(Item.GRADIENTS, "deferred_gradients", "b_a N_t", source, size)

    @cached_property
    def head_gradient(self) -> Term:
        """Gradient of the output projection, whole."""
        return self._unit("head_gradient", "b_c V H", units.head_gradient_bytes)

    @cached_property
    def optimizer_step(self) -> Term:
        """What AdamW allocates for itself."""
        size = model_states.optimizer_step_bytes(self.given.model, self.given.engine)
        source = f"{_STATES}.optimizer_step_bytes"
        return self._exact(Item.OPTIMIZER, "optimizer_step", "b_o ceil(N_t / W)", source, size)

    # -- activations --------------------------------------------------------------------

    def _activation(self, name: str, symbol: str, per_token: Callable[[ModelShape, Engine], int]) -> Term:
        """So many bytes per token, by a function of :mod:`tuner.memory.layer.activations`."""
        tokens, each = self.given.tokens, per_token(self.given.model, self.given.engine)
        counted = self.given.model.traced is not None and symbol in _TRACED
        source = _TRACED[symbol] if counted else f"memory.layer.activations.{per_token.__name__}"
        numbers = {"T": tokens, symbol: each}
        inside = symbol in ("a_f", "a_g", "a_l")
        evidence = activations.layer_evidence(self.given.model) if inside else Evidence.MODELLED
        size = tokens * each
        return term(Item.ACTIVATIONS, name, size, f"T {symbol}", evidence, symbols=numbers, source=source)

    @cached_property
    def batch(self) -> Term:
        """The batch itself and the rotary tables."""
        return self._activation("batch", "a_b", activations.shared_token_bytes)

    @cached_property
    def hidden_states(self) -> Term:
        """One tensor of hidden states."""
        return self._activation("hidden_states", "a_i", activations.layer_input_bytes)

    @cached_property
    def inside_layer(self) -> Term:
        """What one layer needs in a forward pass without gradients."""
        return self._activation("layer_forward", "a_f", activations.layer_forward_bytes)

    @cached_property
    def final_norm(self) -> Term:
        """What the final norm saves."""
        return self._activation("final_norm", "a_n", activations.final_norm_bytes)

    @cached_property
    def saved(self) -> Term:
        """What the forward pass saves for the backward pass, over all layers."""
        model, engine, tokens = self.given.model, self.given.engine, self.given.tokens
        full = engine.checkpointing is Checkpointing.FULL
        if full:
            symbol, each = "a_i", activations.layer_input_bytes(model, engine)
        elif engine.activation_offload:
            symbol, each = "a_l", activations.largest_layer_saved_bytes(model, engine)
        else:
            symbol, each = "a_L", activations.all_layers_saved_bytes(model, engine)
        held = checkpointing.layers_held(model, engine)
        times = "L " if full and held == model.layers else "" if held == 1 or symbol == "a_L" else f"{held} "
        return term(
            Item.ACTIVATIONS,
            "layer_inputs" if full else "saved_layers",
            tokens * checkpointing.saved_token_bytes(model, engine),
            f"{times}T {symbol}",
            Evidence.EXACT if full else activations.layer_evidence(model),
            symbols={"T": tokens, "L": model.layers, symbol: each},
            source="memory.layer.checkpointing.saved_token_bytes",
        )

    # -- head ---------------------------------------------------------------------------

    @cached_property
    def plain_logits(self) -> Term | None:
        """The logits while the projection itself runs; None where they never exist."""
        return None if self.given.fused_head else logits_term(self.given)

    def _copies(self, name: str, copies: int) -> Term | None:
        """What the model makes of its logits; None where they never exist."""
        return None if self.given.fused_head else copies_term(self.given, name, copies)

    @property
    def logits_made(self) -> Term | None:
        """What exists beside the logits while the model makes them."""
        return self._copies("logits_made", self.given.model.logit_copies.forward)

    @property
    def logits_saved(self) -> Term | None:
        """What making them saved for the backward pass."""
        return self._copies("logits_saved", self.given.model.logit_copies.saved)

    @property
    def logits_backward(self) -> Term | None:
        """The same while it is differentiated, and the gradients that this makes."""
        copies = self.given.model.logit_copies
        return self._copies("logits_backward", copies.saved + copies.backward)

    @cached_property
    def head_forward(self) -> Term:
        """The output head without gradients."""
        return head_term(self.given, training=False)

    @cached_property
    def head_backward(self) -> Term:
        """The output head with gradients."""
        return head_term(self.given, training=True)
