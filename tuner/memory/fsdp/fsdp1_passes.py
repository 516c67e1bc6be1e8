"""Moments of a pass under FSDP1, in the order in which they come.

Each moment lists what is allocated then beyond the resident states; the peak is the largest one,
never their sum. The order of allocations was read from torch's FSDP and verl's engine and checked
against measured peaks.
"""

from tuner.memory.fsdp.fsdp1_backward import Fsdp1Backward
from tuner.memory.fsdp.terms import FsdpTerms
from tuner.memory.ledger.terms import Moment
from tuner.memory.pass_terms import PassInput, moment, workspace


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
        *_loading(t),
        moment("root_gathered", workspace(), t.batch, t.fetched_before, t.gathered_root),
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
    other gradients exist; and the one between them that needs the most. A layer's gradient is reduced
    when its activations are gone, the root's when all others have been.
    """
    t = FsdpTerms(given)
    always = (workspace(), t.whole_model, t.batch, t.earlier_gradients)
    forward = (*always, t.saved, t.final_norm)
    projection = (*forward, t.root, t.prefetched_layer, t.head_gradient, t.hidden_states)
    head = projection if given.fused_head else (*forward, t.root_between_passes)
    b, after_layers = Fsdp1Backward(given), (workspace(), t.batch)
    last = b.gradients(b.units.trained(b.units.last))
    other_matrix = () if given.model.shares_embedding else (t.head_gradient, t.hidden_states)
    return (
        *_loading(t),
        moment("forward_end", *forward, t.root_between_passes, t.head_forward, t.logits_saved),
        moment("head_backward", *head, t.head_backward, t.logits_saved),
        moment("root_gather", *forward, t.root_gather, t.plain_logits, t.logits_backward),
        moment("projection_backward", *projection, t.plain_logits),
        *_layer_moments(b, t),
        moment("embedding_backward", *after_layers, *last, *other_matrix, *b.embedding),
        moment("root_reduce", *after_layers, *last, b.root_reduction),
        moment("optimizer_step", workspace(), t.gradients, t.optimizer_step),
    )


def _loading(t: FsdpTerms) -> tuple[Moment, ...]:
    """Offloaded weights on their way back, where the modules hold the ones before."""
    return () if t.held_weights is None else (moment("weights_loaded", workspace(), t.held_weights),)


def _layer_moments(b: Fsdp1Backward, t: FsdpTerms) -> list[Moment]:
    """The last layer, the one below it that needs the most, and the first; each as under FSDP2.

    But what was read by a reduction is freed at once.
    """

    def layer_moment(name: str, layer: int) -> Moment:
        around = (*b.weights(layer), *b.gradients(b.units.waiting(layer)), t.head_gradient)
        return moment(name, workspace(), t.batch, *around, b.same.saved(layer), *b.same.layer(layer))

    def reduction(layer: int) -> Moment:
        around = (*b.weights_below(layer), *b.gradients(b.units.waiting(layer)), t.head_gradient)
        own = (b.same.saved(layer), b.layer_reduction(layer))
        return moment("layer_reduce", workspace(), t.batch, *around, *own)

    turns = b.units.turns(b.same.terms.kinds)  # the first layer, those between, the last
    found = [layer_moment("last_layer_backward", turns[-1])]
    between = [layer_moment("layer_backward", layer) for layer in turns[1:-1]]
    found += [max(between, key=lambda each: each.bytes)] if between else []
    found += [layer_moment("first_layer_backward", turns[0])]
    return [*found, max((reduction(layer) for layer in turns), key=lambda each: each.bytes)]
