"""Moments of a pass under FSDP, in the order in which they come.

Each moment lists what is allocated then beyond the resident states; the peak is the largest one,
never their sum. The order of allocations was read from torch's FSDP and verl's engine and checked
against measured peaks.
"""

from dataclasses import dataclass
from functools import cached_property

from tuner.evidence import Evidence
from tuner.memory import activations, fsdp_units, model_states
from tuner.memory.pass_terms import (
    PassInput,
    head_bytes,
    moment,
    recomputed_layer,
    saved_activations,
    term,
    workspace,
)
from tuner.memory.terms import Item, Moment, Term
from tuner.workload import Backend


@dataclass(frozen=True)
class _Terms:
    """The terms of one pass, each computed when a moment asks for it."""

    given: PassInput

    # -- gathered weights ---------------------------------------------------------------

    def _gathered(self, name: str, size: int, formula: str) -> Term:
        return term(Item.UNSHARDED, name, size, formula, Evidence.EXACT)

    @property
    def keeps_layers(self) -> bool:
        """Whether the forward pass leaves all layers whole (no resharding)."""
        return not self.given.engine.reshard_after_forward

    @cached_property
    def whole_model(self) -> Term | None:
        size = fsdp_units.whole_model_bytes(self.given.model, self.given.engine)
        return self._gathered("unsharded_model", size, "b_c N") if self.keeps_layers else None

    @cached_property
    def root_gathered(self) -> Term:
        size = fsdp_units.head_gather_bytes(self.given.model, self.given.engine)
        return self._gathered("root_unit", size, "b_c U_r")

    @property
    def root(self) -> Term | None:
        """The root unit where it is not part of a whole model already."""
        return None if self.keeps_layers else self.root_gathered

    @property
    def root_between_passes(self) -> Term | None:
        """FSDP1 keeps the root whole from forward to backward; FSDP2 frees it in between."""
        return self.root if self.given.engine.backend is Backend.FSDP else None

    @property
    def root_gather(self) -> Term | None:
        size = fsdp_units.root_gather_bytes(self.given.model, self.given.engine)
        return None if self.keeps_layers else self._gathered("root_gather", size, "c b_c U_r")

    @property
    def first_units(self) -> Term | None:
        size = fsdp_units.first_layer_gather_bytes(self.given.model, self.given.engine)
        return None if self.keeps_layers else self._gathered("first_units", size, "c b_c (U_r + U_l)")

    @property
    def layer_units(self) -> Term | None:
        size = fsdp_units.layer_gather_bytes(self.given.model, self.given.engine)
        return None if self.keeps_layers else self._gathered("layer_units", size, "(c + p) b_c U_l")

    @property
    def last_buffer(self) -> Term | None:
        size = fsdp_units.last_buffer_bytes(self.given.model, self.given.engine)
        return None if self.keeps_layers else self._gathered("last_buffer", size, "(c - 1) b_c U_l")

    @cached_property
    def one_layer(self) -> Term:
        model, engine = self.given.model, self.given.engine
        return self._gathered(
            "layer_unit", model.largest_layer_parameters * engine.compute_dtype.bytes, "b_c U_l"
        )

    @property
    def prefetched_layer(self) -> Term | None:
        """Backward prefetch: the layer below is gathered while this one works."""
        if self.keeps_layers:
            return None
        return self._gathered("prefetched_layer", self.one_layer.bytes, "b_c U_l")

    # -- gradients ----------------------------------------------------------------------

    @cached_property
    def gradients(self) -> Term:
        size = model_states.gradient_bytes(self.given.model, self.given.engine)
        return term(Item.GRADIENTS, "gradients", size, "b_s N_t / W", Evidence.EXACT)

    @cached_property
    def earlier_gradients(self) -> Term | None:
        """Of the micro-batches before this one."""
        given = self.given
        if given.micro_batches == 1:
            return None
        if not given.engine.deferred_gradient_sync:
            return self.gradients
        size = fsdp_units.deferred_gradient_bytes(given.model, given.engine)
        return term(Item.GRADIENTS, "deferred_gradients", size, "b_r N", Evidence.EXACT)

    @cached_property
    def upper_gradients(self) -> Term:
        """Of all layers but the first, reduced; the root's come last of all."""
        model, engine = self.given.model, self.given.engine
        if self.earlier_gradients is not None:
            return self.earlier_gradients
        below = fsdp_units.head_unit_parameters(model, engine) + model.largest_layer_parameters
        missing = 0 if engine.lora else model_states.shard(below, engine) * engine.stored_dtype.bytes
        return term(
            Item.GRADIENTS, "gradients", max(0, self.gradients.bytes - missing), "b_s (N_t - U_r - U_l) / W"
        )

    @cached_property
    def head_gradient(self) -> Term:
        size = fsdp_units.head_gradient_bytes(self.given.model, self.given.engine)
        return self._gathered("head_gradient", size, "b_c V H")

    @cached_property
    def layer_gradient(self) -> Term:
        size = fsdp_units.layer_gradient_bytes(self.given.model, self.given.engine)
        return self._gathered("layer_gradient", size, "(b_c + b_r) U_l")

    @cached_property
    def root_reduce(self) -> Term:
        size = fsdp_units.head_reduce_bytes(self.given.model, self.given.engine)
        return self._gathered("root_reduce", size, "(b_c + b_r) U_r")

    @cached_property
    def optimizer_step(self) -> Term:
        size = model_states.optimizer_step_bytes(self.given.model, self.given.engine)
        return term(Item.OPTIMIZER, "optimizer_step", size, "b_o N_t / W", Evidence.EXACT)

    # -- activations --------------------------------------------------------------------

    def _activation(self, name: str, bytes_per_token: int, formula: str) -> Term:
        return term(Item.ACTIVATIONS, name, self.given.tokens * bytes_per_token, formula)

    @cached_property
    def batch(self) -> Term:
        per_token = activations.shared_token_bytes(self.given.model, self.given.engine)
        return self._activation("batch", per_token, "T (2 b d + 136)")

    @cached_property
    def hidden_states(self) -> Term:
        per_token = activations.layer_input_bytes(self.given.model, self.given.engine)
        return self._activation("hidden_states", per_token, "T b H")

    @cached_property
    def inside_layer(self) -> Term:
        per_token = activations.layer_forward_bytes(self.given.model, self.given.engine)
        return self._activation("layer_forward", per_token, "T b (3 I + 4 H)")

    @cached_property
    def layer_backward(self) -> Term:
        per_token = activations.layer_backward_bytes(self.given.model, self.given.engine)
        return self._activation("layer_backward", per_token, "T b (2 I + 2 H)")

    @cached_property
    def final_norm(self) -> Term:
        per_token = activations.final_norm_bytes(self.given.model, self.given.engine)
        return self._activation("final_norm", per_token, "T (4 + 2 b) H")

    @cached_property
    def saved(self) -> Term:
        return saved_activations(self.given)

    @cached_property
    def recomputed(self) -> Term | None:
        return recomputed_layer(self.given)

    # -- head ---------------------------------------------------------------------------

    @cached_property
    def plain_logits(self) -> Term | None:
        """The logits while the projection itself runs; None where they never exist."""
        given = self.given
        if given.fused_head:
            return None
        size = given.tokens * given.model.vocab * given.head.logits_dtype.bytes
        return term(Item.LOGITS, "logits", size, "T V b")

    @cached_property
    def head_forward(self) -> Term:
        size = head_bytes(self.given, training=False)
        return term(Item.LOGITS, "head_forward", size, "T V (bytes per logit)")

    @cached_property
    def head_backward(self) -> Term:
        size = head_bytes(self.given, training=True)
        return term(Item.LOGITS, "head_backward", size, "T V (bytes per logit)")


def forward_moments(given: PassInput) -> tuple[Moment, ...]:
    """A pass without gradients: first layer, inside a layer, projection, log-probabilities."""
    t = _Terms(given)
    always = (workspace(), t.whole_model, t.batch)
    projection = (*always, t.root, t.last_buffer, t.hidden_states)
    after = (
        (*projection, t.head_forward)
        if given.fused_head
        else (*always, t.root_between_passes, t.head_forward)
    )
    return (
        moment("first_layer", *always, t.first_units, t.hidden_states),
        moment("layer_forward", *always, t.root, t.layer_units, t.inside_layer),
        moment("projection", *projection, t.plain_logits),
        moment("log_probs", *after),
    )


def training_moments(given: PassInput) -> tuple[Moment, ...]:
    """Forward, backward and optimizer step.

    The head comes three times: when log-probabilities and entropy are differentiated, when the
    projection's weights are gathered again, and when it is differentiated, with the gradient of
    its weights beside them. Layers come twice:
    the last one, when all inputs are still saved, and the first, when all other gradients exist.
    """
    t = _Terms(given)
    always = (workspace(), t.whole_model, t.batch, t.earlier_gradients)
    forward = (*always, t.saved, t.final_norm)
    projection = (*forward, t.root, t.prefetched_layer, t.head_gradient, t.hidden_states)
    head = projection if given.fused_head else (*forward, t.root_between_passes)
    layer = (t.one_layer, t.head_gradient, t.layer_gradient, t.recomputed, t.layer_backward)
    # The backward pass frees each layer's weights after use, also where the forward pass kept them.
    end = (workspace(), t.batch, t.root_gathered)
    complete = t.earlier_gradients or t.gradients
    last = (*always, t.saved, t.root, t.prefetched_layer, *(layer[1:] if t.keeps_layers else layer))
    return (
        moment("forward_end", *forward, t.root_between_passes, t.head_forward),
        moment("head_backward", *head, t.head_backward),
        moment("root_gather", *forward, t.root_gather, t.plain_logits),
        moment("projection_backward", *projection, t.plain_logits),
        moment("last_layer_backward", *last),
        moment("first_layer_backward", *end, t.upper_gradients, t.hidden_states, *layer),
        moment("root_reduce", *end, complete, t.root_reduce),
        moment("optimizer_step", workspace(), t.gradients, t.optimizer_step),
    )
