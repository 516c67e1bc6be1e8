"""Moments of a pass of the fullest Megatron stage.

Tensor parallelism (with sequence parallelism) divides the activations. The first stage of a
pipeline holds the activations of as many micro-batches as there are stages; the last one has the
head. Read from the code, not measured.
"""

from dataclasses import replace

from tuner.evidence import Evidence
from tuner.memory import activations, model_states
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
from tuner.workload import Checkpointing


def _divided(part: Term | None, tensor_parallel: int, times: int = 1) -> Term | None:
    if part is None:
        return None
    return replace(part, bytes=-(-part.bytes * times // tensor_parallel), formula=f"{part.formula} / T_p")


def forward_moments(given: PassInput) -> tuple[Moment, ...]:
    """A pass without gradients: inside a layer, and the head on the last stage."""
    per_token = activations.layer_forward_bytes(given.model, given.engine)
    layer = term(Item.ACTIVATIONS, "layer_forward", given.tokens * per_token, "T b (3 I + 4 H)")
    head = term(Item.LOGITS, "head_forward", head_bytes(given, training=False), "T V / T_p (bytes per logit)")
    return (
        moment("layer_forward", workspace(), _divided(layer, given.engine.parallel.tensor)),
        moment("log_probs", workspace(), head),
    )


def training_moments(given: PassInput) -> tuple[Moment, ...]:
    """Forward, backward and optimizer step of the first and of the last stage."""
    engine = given.engine
    tensor, stages = engine.parallel.tensor, engine.parallel.pipeline
    gradient_size = model_states.gradient_bytes(given.model, engine)
    gradients = term(Item.GRADIENTS, "gradients", gradient_size, "4 N / (T_p P)", Evidence.EXACT)
    saved = saved_activations(given)
    recomputed = recomputed_layer(given) if engine.checkpointing is Checkpointing.FULL else None
    head = term(Item.LOGITS, "head_backward", head_bytes(given, training=True), "T V / T_p (bytes per logit)")
    in_flight = min(stages, given.micro_batches)
    layer = _divided(recomputed, tensor)
    return (
        moment("first_stage", workspace(), gradients, _divided(saved, tensor, in_flight), layer),
        moment("last_stage", workspace(), gradients, _divided(saved, tensor), head),
        moment("optimizer_step", workspace(), gradients),
    )
