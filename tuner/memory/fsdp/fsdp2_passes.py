"""Moments of a pass under FSDP2, in the order in which they come.

Each moment lists what is allocated then beyond the resident states; the peak is the largest one,
never their sum. The order of allocations was read from torch's FSDP2 and verl's engine.
"""

from tuner.memory.fsdp.fsdp2_backward import Fsdp2Backward
from tuner.memory.fsdp.fsdp2_terms import Fsdp2Terms
from tuner.memory.ledger.terms import Moment
from tuner.memory.pass_terms import PassInput, moment, workspace


def forward_moments(given: PassInput) -> tuple[Moment, ...]:
    """A pass without gradients: units gathered, inside a layer, projection, log-probabilities."""
    t = Fsdp2Terms(given)
    shared = t.shared
    always = (workspace(), shared.batch)
    layers = (*always, t.root, t.layers_kept)
    head = (*always, *t.head_units, shared.hidden_states)
    after = head if given.fused_head else (*always, shared.whole_model, shared.root_between_passes)
    inside = (moment("layer_forward", *layers, t.working(i), t.inside(i)) for i in t.one_of_each_kind)
    return (
        moment("first_gather", *always, *t.first_gather),
        moment("first_layer", *layers, t.gather(0), shared.hidden_states),
        moment("layer_gather", *layers, t.largest_gather, shared.hidden_states, t.embeddings),
        max(inside, key=lambda found: found.bytes),
        moment("head_gather", *layers, t.head_gather, shared.hidden_states),
        moment("projection", *head, shared.plain_logits, shared.logits_made),
        moment("log_probs", *after, shared.head_forward),
    )


def training_moments(given: PassInput) -> tuple[Moment, ...]:
    """Forward, backward and optimizer step.

    The head comes four times: when log-probabilities and entropy are differentiated, when the
    projection's weights are gathered again, when it is differentiated, and when its gradient is
    reduced. Layers come three times: the last one, when all inputs are still saved; the first, when
    all other gradients exist; and the one between them that needs the most. A layer's moment is the
    stage of its backward pass that needs the most.
    """
    t = Fsdp2Terms(given)
    b, shared, units = Fsdp2Backward(t), t.shared, t.units
    always = (workspace(), shared.batch)
    earlier = (*always, shared.whole_model, shared.earlier_gradients)
    forward = (*earlier, shared.saved, shared.final_norm)
    projection = (
        *forward, shared.root, shared.prefetched_layer, shared.head_gradient, shared.hidden_states
    )  # fmt: skip
    head = projection if given.fused_head else (*forward, shared.root_between_passes)
    last = given.model.layers - 1
    waiting, embedding = (b.other_gradients(units.trained(unit)) for unit in (units.last, units.embedding))
    found = [
        moment("forward_end", *forward, shared.root_between_passes, shared.head_forward, shared.logits_saved),
        moment("head_backward", *head, shared.head_backward, shared.logits_saved),
        moment("root_gather", *forward, shared.root_gather, shared.plain_logits, shared.logits_saved),
        moment("logits_backward", *forward, *b.beside_logits, shared.plain_logits, shared.logits_backward),
        moment("projection_backward", *projection, shared.plain_logits),
    ]
    if units.separate_head:
        reduced = (b.head_reduction, shared.prefetched_layer, shared.hidden_states)
        found.append(moment("head_reduce", *earlier, shared.saved, *reduced))
    found += _layer_moments(b, last)
    found += [
        moment(
            "embedding_backward",
            *always,
            *waiting,
            b.reduced(units.above(-1)),
            *b.root_of_the_head,
            *b.embedding_gradients,
            None if given.model.shares_embedding else shared.hidden_states,
        ),
        moment("root_reduce", *always, *embedding, b.last_reduction),
        moment("optimizer_step", workspace(), shared.gradients, shared.optimizer_step),
    ]
    if units.separate_embedding and not units.separate_head:
        found.insert(-2, moment("head_reduce", *always, *waiting, *b.embedding_gradients, b.head_reduction))
    return tuple(found)


def _layer_moments(b: Fsdp2Backward, last: int) -> list[Moment]:
    """The last layer, the one below it that needs the most, and the first."""
    turns = b.terms.units.turns(b.terms.kinds)
    between = [_layer_moment("layer_backward", b, layer) for layer in turns if 0 < layer < last]
    found = [_layer_moment("last_layer_backward", b, last)]
    if between:
        found.append(max(between, key=lambda each: each.bytes))
    return [*found, _layer_moment("first_layer_backward", b, 0)]


def _layer_moment(name: str, b: Fsdp2Backward, layer: int) -> Moment:
    units = b.terms.units
    return moment(
        name,
        workspace(),
        b.terms.shared.batch,
        *b.weights(layer),
        *b.other_gradients(units.waiting(layer)),
        b.root_gradient,
        b.reduced(units.above(layer)),
        b.saved(layer),
        *b.layer(layer),
    )
