"""Moments of a pass of one Megatron stage, in the order in which they come.

The last stage has the head; every stage holds the activations of the micro-batches in flight, and
the layer that its backward pass works on. The buffers of weights, gradients and optimizer states
are resident and not counted here.
"""

from tuner.memory import model_states
from tuner.memory.ledger.terms import Moment
from tuner.memory.megatron.head import (
    embedding_backward,
    gathered_hidden,
    head_term,
    projection_backward,
)
from tuner.memory.megatron.terms import (
    batch,
    final_norm,
    is_last,
    layer_backward,
    layer_forward,
    layer_kinds,
    recomputed_layers,
    saved_activations,
    stage_of,
)
from tuner.memory.pass_terms import PassInput, moment
from tuner.memory.process.terms import workspaces
from tuner.workload import Engine, HeadKind


def _named(engine: Engine, name: str) -> str:
    return name if engine.parallel.pipeline == 1 else f"stage_{stage_of(engine)}_{name}"


def forward_moments(given: PassInput) -> tuple[Moment, ...]:
    """A pass without gradients: inside a layer, and the head on the last stage."""
    engine = given.engine
    always = (workspaces(), batch(given))
    found = []
    if layer_kinds(given):
        found.append(moment(_named(engine, "layer_forward"), *always, layer_forward(given)))
    if is_last(engine):
        head = head_term(given, training=False)
        found.append(moment(_named(engine, "log_probs"), *always, gathered_hidden(given), head))
    return tuple(found)


def training_moments(given: PassInput) -> tuple[Moment, ...]:
    """Forward end and head on the last stage, one layer's backward pass, embedding, optimizer step."""
    engine = given.engine
    always = (workspaces(), batch(given), saved_activations(given))
    found: list[Moment] = []
    if is_last(engine):
        end = (*always, final_norm(given), gathered_hidden(given))
        found += [
            moment(_named(engine, "forward_end"), *end, head_term(given, training=False)),
            moment(_named(engine, "head_backward"), *end, head_term(given, training=True)),
        ]
        if given.head.kind is HeadKind.LOGITS:
            found.append(moment(_named(engine, "projection_backward"), *end, projection_backward(given)))
    backward = [
        moment(
            _named(engine, "layer_backward"),
            *always,
            recomputed_layers(given, layer),
            layer_backward(given, layer),
        )
        for layer in layer_kinds(given)
    ]
    if backward:
        found.append(max(backward, key=lambda one: one.bytes))
    if stage_of(engine) == 0:
        others = saved_activations(given, others_only=True)
        parts = (workspaces(), batch(given), others, embedding_backward(given))
        found.append(moment(_named(engine, "embedding_backward"), *parts))
    found.append(
        moment(
            _named(engine, "optimizer_step"), workspaces(), model_states.optimizer_step(given.model, engine)
        )
    )
    return tuple(found)
