"""Terms of a pass that FSDP1 and FSDP2 have in common: the head, the batch, and what goes with them."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from msgspec import Struct

from tuner.evidence import Evidence
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.fsdp import gathered_weights, gradients, per_token, states, units
from tuner.memory.fsdp.order import UnitOrder
from tuner.memory.head.terms import copies_term, head_term, logits_term
from tuner.memory.layer import activations, checkpointing, traced_layer
from tuner.memory.ledger.stated_terms import Size, stated
from tuner.memory.ledger.terms import Item, Term
from tuner.workload import Checkpointing


class SharedTerms(Struct, frozen=True, dict=True):
    """The common terms of one pass, each computed when a moment asks for it."""

    micro_batch: PassInput

    @cached_property
    def order(self) -> UnitOrder:
        """What is gathered and reduced at once."""
        model, engine = self.micro_batch.model, self.micro_batch.engine
        return UnitOrder(units.gathered_model(model, engine), engine)

    @cached_property
    def numbers(self) -> dict[str, float]:
        """The symbols that stand for the same number in all formulas of a pass."""
        model, engine = self.micro_batch.model, self.micro_batch.engine
        return {
            "T": self.micro_batch.tokens,
            "V": model.vocab,
            "H": model.hidden,
            "N": self.order.model.parameters,
            "N_t": states.trained_parameters(model, engine),
            "W": engine.parallel.shard,
            "U_r": self.order.head,
            "b_a": gradients.accumulated_dtype(engine).bytes,
            "b_c": engine.compute_dtype.bytes,
            "b_r": engine.reduce_dtype.bytes,
            "b_s": engine.stored_dtype.bytes,
            "p": units.prefetched_layers(engine),
        }

    def sized(self, name: str, size: Size, **numbers: int) -> Term:
        """A term of whole weights or gradients; ``numbers`` has the symbols that differ by unit."""
        return stated(Item.UNSHARDED, name, size, {**self.numbers, **numbers})

    def gradient(self, name: str, size: Size, **numbers: int) -> Term:
        """A term of gradients that wait for the optimizer, or for their reduction."""
        return stated(Item.GRADIENTS, name, size, {**self.numbers, **numbers})

    def gathered_weights(self, name: str, size: Size, **numbers: int) -> Term | None:
        """A term of gathered weights; None where units work with the stored ones."""
        if units.works_in_place(self.micro_batch.engine):
            return None
        return self.sized(name, size, **numbers)

    # -- gathered weights ---------------------------------------------------------------

    @cached_property
    def keeps_layers(self) -> bool:
        """Whether the forward pass leaves all layers whole."""
        return units.keeps_layers(self.micro_batch.engine)

    @cached_property
    def whole_model(self) -> Term | None:
        """All weights, where layers stay whole after the forward pass."""
        return (
            self.sized("unsharded_model", gathered_weights.whole_model_bytes) if self.keeps_layers else None
        )

    def kept_units(self, layer: int) -> Term:
        """The units that are whole in a layer's backward pass where layers stay whole."""
        return self.sized(
            "unsharded_model", gathered_weights.kept_units_bytes, U_w=self.order.whole_parameters(layer)
        )

    @cached_property
    def head_unit(self) -> Term | None:
        """The unit of the output projection, whole, where it is not part of a whole model already."""
        return (
            None
            if self.keeps_layers
            else self.gathered_weights("root_unit", gathered_weights.head_unit_bytes)
        )

    @property
    def root(self) -> Term | None:
        """The root unit from the first layer on; None where it is the projection alone, which comes last."""
        return self.tower_root if self.order.separate_head else self.head_unit

    @property
    def tower_root(self) -> Term | None:
        """A root of a vision tower's merger and norms alone, which stays whole; None where it holds more."""
        if self.keeps_layers or not self.order.tower_root:
            return None
        return self.sized("root_unit", gathered_weights.layer_unit_bytes, U_l=self.order.tower_root)

    @cached_property
    def prefetched_layer(self) -> Term | None:
        """A layer gathered while the head is differentiated."""
        if self.keeps_layers:
            return None
        largest = self.order.model.largest_layer_parameters
        return self.gathered_weights("prefetched_layer", gathered_weights.prefetched_unit_bytes, U_b=largest)

    # -- gradients ----------------------------------------------------------------------

    @cached_property
    def gradients(self) -> Term:
        """All gradients, reduced."""
        return states.gradients(self.micro_batch.model, self.micro_batch.engine)

    @cached_property
    def earlier_gradients(self) -> Term | None:
        """Gradients of the micro-batches before this one."""
        if self.micro_batch.micro_batches == 1:
            return None
        if not self.micro_batch.engine.deferred_gradient_sync:
            return self.gradients
        trained = states.trained_parameters(self.micro_batch.model, self.micro_batch.engine)
        return self.deferred_gradients(trained)

    def deferred_gradients(self, waiting: int) -> Term:
        """Gradients of earlier micro-batches, of ``waiting`` parameters whose reduction is still to come."""
        return self.gradient("deferred_gradients", gradients.deferred_gradient_bytes, U_k=waiting)

    @cached_property
    def head_gradient(self) -> Term | None:
        """Gradient of the output projection, whole; None where it is frozen, or a value head's column."""
        if self.micro_batch.engine.lora is not None or self.micro_batch.model.value_head:
            return None
        return self.sized("head_gradient", gradients.head_gradient_bytes)

    @cached_property
    def optimizer_step(self) -> Term:
        """What AdamW allocates for itself."""
        return states.optimizer_step(self.micro_batch.model, self.micro_batch.engine)

    # -- activations --------------------------------------------------------------------

    @cached_property
    def layer_evidence(self) -> Evidence:
        """How sure the activations of its layers are."""
        return activations.layer_evidence(self.micro_batch.model)

    def in_layer(self, name: str, size: Size, derived: Callable[..., Any], **token_bytes: int) -> Term:
        """Activations of a layer; ``derived`` gives their bytes per token where no trace has counted them."""
        return stated(
            Item.ACTIVATIONS,
            name,
            size,
            {"T": self.micro_batch.tokens, **token_bytes},
            evidence=self.layer_evidence,
            source=derived if self.micro_batch.model.traced is None else traced_layer.layer_bytes,
        )

    def _outside(self, name: str, size: Size, derived: Callable[..., Any], **token_bytes: int) -> Term:
        """Activations outside the layers."""
        numbers = {"T": self.micro_batch.tokens, **token_bytes}
        return stated(Item.ACTIVATIONS, name, size, numbers, evidence=Evidence.MODELLED, source=derived)

    @cached_property
    def input_token_bytes(self) -> int:
        """Bytes per token of a layer's input, and of any other tensor of hidden states."""
        return activations.layer_input_bytes(self.micro_batch.model, self.micro_batch.engine)

    @cached_property
    def batch(self) -> Term:
        """The batch itself and the rotary tables."""
        source = activations.shared_token_bytes
        size = source(self.micro_batch.model, self.micro_batch.engine)
        return self._outside("batch", per_token.batch_bytes, source, a_b=size)

    @cached_property
    def hidden_states(self) -> Term:
        """One tensor of hidden states."""
        size, source = per_token.hidden_states_bytes, activations.layer_input_bytes
        return self._outside("hidden_states", size, source, a_i=self.input_token_bytes)

    @cached_property
    def final_norm(self) -> Term:
        """What the final norm saves."""
        model, source = self.micro_batch.model, activations.final_norm_bytes
        size = source(model, self.micro_batch.engine)
        counted = source if model.traced is None else traced_layer.final_norm_bytes
        return self._outside("final_norm", per_token.final_norm_bytes, counted, a_n=size)

    @cached_property
    def saved(self) -> Term:
        """What the forward pass saves for the backward pass, over all layers."""
        model, engine = self.micro_batch.model, self.micro_batch.engine
        if engine.checkpointing is Checkpointing.FULL:
            return self.layer_inputs(checkpointing.layers_held(model, engine))
        if not engine.activation_offload:
            return self.saved_layers(activations.all_layers_saved_bytes(model, engine))
        largest = activations.largest_layer_saved_bytes
        return self.in_layer("saved_layers", per_token.saved_layer_bytes, largest, a_l=largest(model, engine))

    def layer_inputs(self, layers: int) -> Term:
        """Inputs of ``layers`` layers, which full checkpointing keeps."""
        numbers = {"n_i": layers, "T": self.micro_batch.tokens, "a_i": self.input_token_bytes}
        return stated(Item.ACTIVATIONS, "layer_inputs", checkpointing.layer_inputs_bytes, numbers)

    def saved_layers(self, token_bytes: int) -> Term:
        """What layers save per token without checkpointing."""
        size, numbers = checkpointing.saved_layers_bytes, {"T": self.micro_batch.tokens, "a_L": token_bytes}
        return stated(Item.ACTIVATIONS, "saved_layers", size, numbers, evidence=self.layer_evidence)

    # -- head ---------------------------------------------------------------------------

    @cached_property
    def plain_logits(self) -> Term | None:
        """The logits while the projection itself runs; None where they never exist."""
        return None if self.micro_batch.fused_head else logits_term(self.micro_batch)

    def _copies(self, name: str, copies: int) -> Term | None:
        """What the model makes of its logits; None where they never exist."""
        return None if self.micro_batch.fused_head else copies_term(self.micro_batch, name, copies)

    @property
    def logits_made(self) -> Term | None:
        """What exists beside the logits while the model makes them."""
        return self._copies("logits_made", self.micro_batch.model.logit_copies.forward)

    @property
    def logits_saved(self) -> Term | None:
        """What making the logits saved for the backward pass."""
        return self._copies("logits_saved", self.micro_batch.model.logit_copies.saved)

    @property
    def logits_backward(self) -> Term | None:
        """What making the logits saved, and the gradients made while that is differentiated."""
        copies = self.micro_batch.model.logit_copies
        return self._copies("logits_backward", copies.saved + copies.backward)

    @cached_property
    def head_forward(self) -> Term:
        """The output head without gradients."""
        return head_term(self.micro_batch, training=False)

    @cached_property
    def head_backward(self) -> Term:
        """The output head with gradients."""
        return head_term(self.micro_batch, training=True)
