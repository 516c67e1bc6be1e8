"""Moments of a pass under FSDP1, in the order in which they come.

Each moment lists what is allocated then beyond the resident states; the peak is the largest one,
never their sum. The order of allocations was read from torch's FSDP and verl's engine and checked
against measured peaks.
"""

from tuner.memory.batch.micro_batch import PassInput, moment
from tuner.memory.fsdp import units
from tuner.memory.fsdp.fsdp1.terms import Fsdp1Terms
from tuner.memory.fsdp.order import TOWER_BACKWARD
from tuner.memory.ledger.terms import Moment
from tuner.memory.process.terms import workspaces


def forward_moments(micro_batch: PassInput) -> tuple[Moment, ...]:
    """A pass without gradients: root, first layer, inside a layer, projection, log-probabilities."""
    own = Fsdp1Terms(micro_batch)
    shared = own.shared
    always = (workspaces(), shared.whole_model, shared.batch)
    projection = (*always, shared.root, shared.hidden_states)
    after = projection if micro_batch.fused_head else (*always, own.root_between_passes)
    return (
        *_loading(own),
        moment("root_gathered", workspaces(), shared.batch, own.fetched_before, own.root_and_share),
        moment("first_layer", *always, own.first_units, shared.hidden_states),
        moment("layer_forward", *always, shared.root, own.layer_units, own.inside_layer),
        moment("projection", *projection, shared.plain_logits, shared.logits_made),
        moment("log_probs", *after, shared.head_forward),
    )


def training_moments(micro_batch: PassInput) -> tuple[Moment, ...]:
    """Forward, backward and optimizer step.

    The head comes three times: when log-probabilities and entropy are differentiated, when what the
    model made of its logits is, and when the projection is, with the gradient of its weights beside
    them. Layers come three times: the last one, when all inputs are still saved; the first, when all
    other gradients exist; and the one between them that needs the most. A layer's gradient is reduced
    when its activations are gone, the root's when all others have been.
    """
    own = Fsdp1Terms(micro_batch)
    shared, order = own.shared, own.shared.order
    always = (workspaces(), shared.whole_model, shared.batch, shared.earlier_gradients)
    forward = (*always, shared.saved, shared.final_norm)
    projection = (
        *forward, shared.root, shared.prefetched_layer, shared.head_gradient, shared.hidden_states
    )  # fmt: skip
    head = projection if micro_batch.fused_head else (*forward, own.root_between_passes)
    after_layers = (workspaces(), shared.batch, *own.layers.gradients(order.trained(order.last)))
    other_matrix = () if micro_batch.model.shares_embedding else (shared.head_gradient, shared.hidden_states)
    return (
        *_loading(own),
        moment("forward_end", *forward, own.root_between_passes, shared.head_forward, shared.logits_saved),
        moment("head_backward", *head, shared.head_backward, shared.logits_saved),
        moment("root_gather", *forward, own.root_gather, shared.plain_logits, shared.logits_backward),
        moment("projection_backward", *projection, shared.plain_logits),
        *_layer_moments(own),
        *_tower_moments(own),
        moment("embedding_backward", *after_layers, *other_matrix, *own.embedding),
        moment("root_reduce", *after_layers, own.root_reduction),
        moment("optimizer_step", workspaces(), shared.gradients, shared.optimizer_step),
    )


def _loading(own: Fsdp1Terms) -> tuple[Moment, ...]:
    """Offloaded weights on their way back, where the modules hold the ones before."""
    return () if own.held_weights is None else (moment("weights_loaded", workspaces(), own.held_weights),)


def _tower_moments(own: Fsdp1Terms) -> list[Moment]:
    """A vision tower's backward pass, between the first layer's and the embedding's; activations apart."""
    if own.micro_batch.patches is None:
        return []
    weights = () if units.works_in_place(own.engine) else own.layers.tower_weights
    gradients = own.layers.gradients(own.layers.tower_waiting)
    head = own.shared.head_gradient
    return [moment(TOWER_BACKWARD, workspaces(), own.shared.batch, *weights, *gradients, head)]


def _layer_moments(own: Fsdp1Terms) -> list[Moment]:
    """The last layer, the one below it that needs the most, and the first; then the largest reduction.

    What a reduction has read is freed at once.
    """
    layers = own.shared.order.extremes  # the first layer, those between, the last
    moments = [_layer_moment("last_layer_backward", own, layers[-1])]
    between = [_layer_moment("layer_backward", own, layer) for layer in layers[1:-1]]
    moments += [max(between, key=lambda moment: moment.bytes)] if between else []
    moments.append(_layer_moment("first_layer_backward", own, layers[0]))
    reductions = (_reduction_moment(own, layer) for layer in layers)
    return [*moments, max(reductions, key=lambda moment: moment.bytes)]


def _layer_moment(name: str, own: Fsdp1Terms, layer: int) -> Moment:
    return moment(
        name,
        workspaces(),
        own.shared.batch,
        *own.weights(layer),
        *own.layers.gradients(own.shared.order.waiting(layer)),
        own.shared.head_gradient,
        own.layers.saved(layer),
        *own.layers.layer(layer),
    )


def _reduction_moment(own: Fsdp1Terms, layer: int) -> Moment:
    return moment(
        "layer_reduce",
        workspaces(),
        own.shared.batch,
        *own.weights_around(layer),
        *own.layers.gradients(own.shared.order.waiting(layer)),
        own.shared.head_gradient,
        own.layers.saved(layer),
        own.layer_reduction(layer),
    )
