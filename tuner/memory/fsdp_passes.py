"""Moments of a pass under FSDP1, in the order in which they come.

Each moment lists what is allocated then beyond the resident states; the peak is the largest one,
never their sum. The order of allocations was read from torch's FSDP and verl's engine and checked
against measured peaks.
"""

from tuner.memory.fsdp2_backward import Fsdp2Backward
from tuner.memory.fsdp2_terms import Fsdp2Terms
from tuner.memory.fsdp_terms import FsdpTerms
from tuner.memory.pass_terms import PassInput, moment, workspace
from tuner.memory.terms import Moment


def forward_moments(given: PassInput) -> tuple[Moment, ...]:
    """A pass without gradients: root, first layer, inside a layer, projection, log-probabilities."""
    t = FsdpTerms(given)
    always = (workspace(), t.whole_model, t.batch)
    projection = (*always, t.root, t.hidden_states)
    after = (
        (*projection, t.head_forward)
        if given.fused_head
        else (*always, t.root_between_passes, t.head_forward)
    )
    return (
        moment("root_gathered", workspace(), t.batch, t.gathered_root),
        moment("first_layer", *always, t.first_units, t.hidden_states),
        moment("layer_forward", *always, t.root, t.layer_units, t.inside_layer),
        moment("projection", *projection, t.plain_logits, t.logits_made),
        moment("log_probs", *after),
    )


def training_moments(given: PassInput) -> tuple[Moment, ...]:
    """Forward, backward and optimizer step.

    The head comes three times: when log-probabilities and entropy are differentiated, when what the
    model made of its logits is, and when the projection is, with the gradient of its weights beside
    them. Layers come three times: the last one, when all inputs are still saved; the first, when all
    other gradients exist; and the one between them that needs the most.
    """
    t = FsdpTerms(given)
    always = (workspace(), t.whole_model, t.batch, t.earlier_gradients)
    forward = (*always, t.saved, t.final_norm)
    projection = (*forward, t.root, t.prefetched_layer, t.head_gradient, t.hidden_states)
    head = projection if given.fused_head else (*forward, t.root_between_passes)
    # The backward pass frees each layer's weights after use, also where the forward pass kept them.
    end = (workspace(), t.batch, t.root_gathered)
    complete = t.earlier_gradients or t.gradients
    return (
        moment("forward_end", *forward, t.root_between_passes, t.head_forward, t.logits_saved),
        moment("head_backward", *head, t.head_backward, t.logits_saved),
        moment("root_gather", *forward, t.root_gather, t.plain_logits, t.logits_backward),
        moment("projection_backward", *projection, t.plain_logits),
        *_layer_moments(given, t),
        moment("root_reduce", *end, complete, t.root_reduce),
        moment("optimizer_step", workspace(), t.gradients, t.optimizer_step),
    )


def _layer_moments(given: PassInput, t: FsdpTerms) -> list[Moment]:
    """The last layer, the one below it that needs the most, and the first; each as under FSDP2.

    But the copy of a gradient that is reduced is freed at once. The gradient of the layer above stays,
    since another stream has used it (torch ``_runtime_utils.py``, ``_post_backward_hook``).
    """
    b, last = Fsdp2Backward(Fsdp2Terms(given)), given.model.layers - 1
    units = b.terms.units

    def layer_moment(name: str, layer: int) -> Moment:
        earlier = t.earlier_gradients
        gradients = b.other_gradients(units.waiting(layer)) if earlier is None else (earlier,)
        above = b.terms.whole("unit_above", "U_a", units.above(layer))
        own = (above, b.saved(layer), *b.layer(layer))
        return moment(name, workspace(), t.batch, *b.weights(layer), *gradients, t.head_gradient, *own)

    between = [layer_moment("layer_backward", layer) for layer in units.turns(b.terms.kinds)]
    found = [layer_moment("last_layer_backward", last)]
    found += [max(between[1:-1], key=lambda each: each.bytes)] if len(between) > 2 else []
    return [*found, layer_moment("first_layer_backward", 0)]
