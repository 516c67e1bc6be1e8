"""Moments of a pass of one Megatron stage, in the order in which they come.

The last stage has the head; every stage holds the activations of the micro-batches in flight, and
the layer that its backward pass works on. The buffers of weights, gradients and optimizer states
are resident and not counted here.
"""

from collections.abc import Iterable

from tuner.memory.batch.micro_batch import PassInput, moment
from tuner.memory.ledger.terms import Moment
from tuner.memory.megatron import states
from tuner.memory.megatron.head import (
    embedding_backward,
    gathered_hidden,
    head_term,
    projection_backward,
)
from tuner.memory.megatron.mtp import module_activations
from tuner.memory.megatron.routes import route_terms, routes_at_step
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
from tuner.memory.megatron.undivided_tensors import undivided
from tuner.memory.process.terms import workspaces
from tuner.workload import Engine, HeadKind


def _named(engine: Engine, name: str) -> str:
    return name if engine.parallel.pipeline == 1 else f"stage_{stage_of(engine)}_{name}"


def forward_moments(micro_batch: PassInput) -> tuple[Moment, ...]:
    """A pass without gradients: inside a layer, and the head on the last stage."""
    engine = micro_batch.engine
    always = (workspaces(), batch(micro_batch), *route_terms(micro_batch, training=False))
    moments = []
    if layer_kinds(micro_batch):
        moments.append(moment(_named(engine, "layer_forward"), *always, layer_forward(micro_batch)))
    if is_last(engine):
        head = head_term(micro_batch, training=False)
        moments.append(moment(_named(engine, "log_probs"), *always, gathered_hidden(micro_batch), head))
    return _with_undivided(engine, moments)


def training_moments(micro_batch: PassInput) -> tuple[Moment, ...]:
    """Forward end and head on the last stage, one layer's backward pass, embedding, optimizer step."""
    engine = micro_batch.engine
    routes = route_terms(micro_batch, training=True)
    always = (
        workspaces(),
        batch(micro_batch),
        *routes,
        module_activations(micro_batch),
        saved_activations(micro_batch),
    )
    moments: list[Moment] = []
    if is_last(engine):
        end = (*always, final_norm(micro_batch), gathered_hidden(micro_batch))
        moments += [
            moment(_named(engine, "forward_end"), *end, head_term(micro_batch, training=False)),
            moment(_named(engine, "head_backward"), *end, head_term(micro_batch, training=True)),
        ]
        if micro_batch.head.kind is HeadKind.LOGITS:
            moments.append(
                moment(_named(engine, "projection_backward"), *end, projection_backward(micro_batch))
            )
    backward = [
        moment(
            _named(engine, "layer_backward"),
            *always,
            recomputed_layers(micro_batch, layer),
            layer_backward(micro_batch, layer),
        )
        for layer in layer_kinds(micro_batch)
    ]
    if backward:
        moments.append(max(backward, key=lambda candidate: candidate.bytes))
    if stage_of(engine) == 0:
        unrouted_activations = saved_activations(micro_batch, others_only=True)
        parts = (
            workspaces(),
            batch(micro_batch),
            *routes,
            unrouted_activations,
            embedding_backward(micro_batch),
        )
        moments.append(moment(_named(engine, "embedding_backward"), *parts))
    moments.append(
        moment(
            _named(engine, "optimizer_step"),
            workspaces(),
            *routes_at_step(micro_batch),
            states.optimizer_step(micro_batch.model, engine),
        )
    )
    return _with_undivided(engine, moments)


def _with_undivided(engine: Engine, moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """Each moment with what its activations take more where tensor parallelism leaves them whole."""
    return tuple(
        [moment(original.name, *original.terms, undivided(engine, original.terms)) for original in moments]
    )
