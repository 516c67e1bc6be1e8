"""Moments of a pass under FSDP2, in the order in which they come.

Each moment lists what is allocated then beyond the resident states; the peak is the largest one,
never their sum. The order of allocations was read from torch's FSDP2 and verl's engine.
"""

from tuner.memory.batch.micro_batch import PassInput, moment
from tuner.memory.fsdp.fsdp2.backward import Fsdp2Backward
from tuner.memory.fsdp.fsdp2.forward import Fsdp2Forward
from tuner.memory.fsdp.order import TOWER_BACKWARD
from tuner.memory.fsdp.shared_backward import LayersBackward
from tuner.memory.fsdp.shared_terms import SharedTerms
from tuner.memory.ledger.terms import Moment, Term
from tuner.memory.process.terms import workspaces


def forward_moments(micro_batch: PassInput) -> tuple[Moment, ...]:
    """A pass without gradients: units gathered, inside a layer, projection, log-probabilities."""
    shared = SharedTerms(micro_batch)
    own = Fsdp2Forward(shared)
    always = (workspaces(), shared.batch)
    layers = (*always, shared.root, own.layers_kept)
    head = (*always, *own.head_units, shared.tower_root, shared.hidden_states)
    after = head if micro_batch.fused_head else (*always, shared.whole_model, own.root_between_passes)
    inside = (
        moment("layer_forward", *layers, own.working(layer), own.inside(layer))
        for layer in shared.order.one_of_each_kind
    )
    return (
        moment("first_gather", *always, *own.first_gather),
        *_tower_gather(own, *layers, shared.hidden_states),
        moment("first_layer", *layers, own.gather(0), shared.hidden_states),
        moment("layer_gather", *layers, own.largest_gather, shared.hidden_states, own.embeddings),
        max(inside, key=lambda moment: moment.bytes),
        moment("head_gather", *layers, own.head_gather, shared.hidden_states),
        moment("projection", *head, shared.plain_logits, shared.logits_made),
        moment("log_probs", *after, shared.head_forward),
    )


def _tower_gather(own: Fsdp2Forward, *around: Term | None) -> tuple[Moment, ...]:
    """The first block of a vision tower while it is gathered, which is before the first layer."""
    block = own.tower_gather
    return () if block is None else (moment("tower_gather", *around, block),)


def training_moments(micro_batch: PassInput) -> tuple[Moment, ...]:
    """Forward, backward and optimizer step.

    The head comes four times: when log-probabilities and entropy are differentiated, when the
    projection's weights are gathered again, when it is differentiated, and when its gradient is
    reduced. Layers come three times: the last one, when all inputs are still saved; the first, when
    all other gradients exist; and the one between them that needs the most. A layer's moment is the
    stage of its backward pass that needs the most.
    """
    shared = SharedTerms(micro_batch)
    own = Fsdp2Backward(LayersBackward(shared))
    return (
        *_head_moments(own, Fsdp2Forward(shared).root_between_passes),
        *_layer_moments(own),
        *_tower_moments(own),
        *_embedding_moments(own),
        moment("optimizer_step", workspaces(), shared.gradients, shared.optimizer_step),
    )


def _head_moments(own: Fsdp2Backward, root: Term | None) -> list[Moment]:
    """The end of the forward pass with the ``root`` that it leaves, and the backward pass of the head."""
    shared = own.shared
    resident = (shared.batch, shared.whole_model, shared.tower_root)
    earlier = (workspaces(), *resident, shared.earlier_gradients)
    forward = (*earlier, shared.saved, shared.final_norm)
    projection = (
        *forward, shared.head_unit, shared.prefetched_layer, shared.head_gradient, shared.hidden_states
    )  # fmt: skip
    head = projection if shared.micro_batch.fused_head else (*forward, root)
    logits = (*own.beside_logits, shared.plain_logits, shared.logits_backward)
    moments = [
        moment("forward_end", *forward, root, shared.head_forward, shared.logits_saved),
        moment("head_backward", *head, shared.head_backward, shared.logits_saved),
        moment("root_gather", *forward, own.root_gather, shared.plain_logits, shared.logits_saved),
        moment("logits_backward", *forward, *logits),
        moment("projection_backward", *projection, shared.plain_logits),
    ]
    if own.order.separate_head:
        reduced = (own.head_reduction, shared.prefetched_layer, shared.hidden_states)
        moments.append(moment("head_reduce", *earlier, shared.saved, *reduced))
    return moments


def _layer_moments(own: Fsdp2Backward) -> list[Moment]:
    """The last layer, the one below it that needs the most, and the first."""
    last = own.order.model.layers - 1
    inner = (layer for layer in own.order.extremes if 0 < layer < last)
    between = [_layer_moment("layer_backward", own, layer) for layer in inner]
    moments = [_layer_moment("last_layer_backward", own, last)]
    if between:
        moments.append(max(between, key=lambda moment: moment.bytes))
    return [*moments, _layer_moment("first_layer_backward", own, 0)]


def _layer_moment(name: str, own: Fsdp2Backward, layer: int) -> Moment:
    return moment(
        name,
        workspaces(),
        own.shared.batch,
        *own.layers.weights(layer),
        *own.gradients(own.order.waiting(layer)),
        own.root_gradient,
        own.unit_above(layer),
        own.layers.saved(layer),
        *own.layers.layer(layer),
    )


def _tower_moments(own: Fsdp2Backward) -> list[Moment]:
    """A vision tower's backward pass, between the first layer's and the embedding's; activations apart."""
    if own.shared.micro_batch.patches is None:
        return []
    return [
        moment(
            TOWER_BACKWARD,
            workspaces(),
            own.shared.batch,
            *own.layers.tower_weights,
            *own.gradients(own.layers.tower_waiting),
            own.root_gradient,
            own.first_layer_gradient,
        )
    ]


def _embedding_moments(own: Fsdp2Backward) -> list[Moment]:
    """The embedding's backward pass, and the reductions that are the last."""
    shared, order = own.shared, own.order
    always = (workspaces(), shared.batch)
    before = (*always, *own.gradients(order.trained(order.last)))
    hidden_states = None if order.model.shares_embedding else shared.hidden_states
    root = (own.unit_above(-1), *own.root_of_the_head)
    moments = [moment("embedding_backward", *before, *root, *own.embedding, hidden_states)]
    if order.separate_embedding and not order.separate_head:
        moments.append(moment("head_reduce", *before, *own.embedding, own.head_reduction))
    waiting = own.gradients(order.trained(order.embedding))
    return [*moments, moment("root_reduce", *always, *waiting, own.last_reduction)]
