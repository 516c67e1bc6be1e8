"""Terms of a pass of one Megatron stage: what the activations and their gradients take.

Symbols: :math:`T` tokens of the rank before sequence parallelism divides them, :math:`T_p`
tensor parallel size, :math:`b` bytes of the compute dtype, :math:`H` hidden, :math:`V` vocabulary.
"""

from collections.abc import Mapping
from math import ceil

from tuner.evidence import Evidence
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.layer import activations
from tuner.memory.ledger.formula import ceil_div, largest
from tuner.memory.ledger.stated_terms import Size, bytes_of, stated
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron.layers import backward_sizes, forward_bytes, imbalance_bytes, layer_bytes
from tuner.memory.megatron.stages import in_flight, stage_layers
from tuner.workload import Checkpointing, Engine

SYMBOLS = {
    "u": "how many times a_p a layer has freed when its first projection comes",
}


def stage_of(engine: Engine) -> int:
    """The pipeline stage that is asked about, the first where none is."""
    return engine.parallel.stage or 0


def is_last(engine: Engine) -> bool:
    """Whether the stage that is asked about is the one with the head."""
    return stage_of(engine) == engine.parallel.pipeline - 1


def kept_per_token(micro_batch: PassInput) -> int:
    r"""Bytes per token that a stage keeps from forward to backward, before tensor parallelism.

    .. math:: \lceil l_c / n_r \rceil \, b H + \sum_{\text{other layers}} a_m + b H

    Full recomputation keeps the input of every :math:`n_r` layers of the :math:`l_c` that it covers:
    all of a stage (uniform) or the first of it (block). Everything else keeps what
    :func:`~tuner.memory.megatron.layers.layer_bytes` counts. A stage also keeps what it has sent to
    the next one, unless it is told to free that. Recomputing the attention core alone frees nothing
    but the softmax statistics where attention is flash attention.

    Source: Megatron-Core ``transformer/transformer_block.py`` (``_checkpointed_forward``),
    ``pipeline_parallel/schedules.py`` (``deallocate_output_tensor``).
    """
    model, engine = micro_batch.model, micro_batch.engine
    layers = stage_layers(model, engine.parallel, stage_of(engine))
    covered = covered_layers(engine, len(layers))
    sent = 0 if is_last(engine) or engine.frees_stage_outputs else 1
    states = (ceil(covered / engine.recompute_layers) + sent) * engine.compute_dtype.bytes * model.hidden
    kinds: dict[tuple[bool, ...], list[int]] = {}
    for layer in layers[covered:]:
        kinds.setdefault(model.kind(layer), []).append(layer)
    return states + sum(len(alike) * layer_bytes(model, engine, alike[0]) for alike in kinds.values())


def covered_layers(engine: Engine, layers: int) -> int:
    """Layers of a stage that are recomputed in full, the first of each of its pieces."""
    if engine.checkpointing is not Checkpointing.FULL:
        return 0
    first = engine.recompute_first_layers
    return layers if first is None else min(first * engine.parallel.virtual_pipeline, layers)


def imbalance_per_token(micro_batch: PassInput) -> int:
    """Bytes per token that a stage keeps beyond :func:`kept_per_token` where routers are not balanced."""
    model, engine = micro_batch.model, micro_batch.engine
    layers = stage_layers(model, engine.parallel, stage_of(engine))
    uncovered_layers = layers[covered_layers(engine, len(layers)) :]
    return sum(imbalance_bytes(model, engine, layer) for layer in uncovered_layers)


def tokens_in_flight(micro_batch: PassInput) -> int:
    r"""Tokens of the micro-batches in flight on a stage, counted in pieces of it.

    .. math:: T_f = \min(v_p f \, T, \; v_p T_m)

    Those of :math:`f` micro-batches (:func:`~tuner.memory.megatron.stages.in_flight`), which are never
    more than the :math:`T_m` tokens of the optimizer step; in the :math:`v_p` pieces of a stage.
    """
    parallel, pieces = micro_batch.engine.parallel, micro_batch.engine.parallel.virtual_pipeline
    flight = round(in_flight(parallel, stage_of(micro_batch.engine), micro_batch.micro_batches) * pieces)
    flight_tokens, of_step = flight * micro_batch.tokens, micro_batch.step_tokens
    return flight_tokens if of_step is None else min(flight_tokens, pieces * of_step)


def _activations(name: str, size: Size, numbers: Mapping[str, float], *, upper: int = 0) -> Term:
    """A term of the activations.

    Args:
        name: its identifier.
        size: the function that states it.
        numbers: by symbol.
        upper: bytes that it may have beyond, where routers are not balanced.
    """
    interval = None
    if upper:
        typical = bytes_of(size, numbers)
        interval = (typical, typical + upper)
    return stated(Item.ACTIVATIONS, name, size, numbers, evidence=Evidence.MODELLED, interval=interval)


def saved_activation_bytes(*, T_f: int, a_k: int, v_p: int, T_p: int) -> int:
    """Activations of all micro-batches in flight.

    :math:`a_k` bytes per token (:func:`~tuner.memory.megatron.terms.kept_per_token`) of the
    :math:`T_f` tokens (:func:`~tuner.memory.megatron.terms.tokens_in_flight`) in :math:`v_p` pieces of
    a stage. At the end of a micro-batch's backward pass its own are gone.

    Source: Megatron-Core ``pipeline_parallel/schedules.py``, ``transformer/transformer_block.py``.
    """
    return ceil_div(T_f * a_k, v_p * T_p)


def saved_activations(micro_batch: PassInput, *, others_only: bool = False) -> Term:
    """What a stage holds for the backward passes to come; ``others_only``: of all micro-batches but one."""
    parallel = micro_batch.engine.parallel
    numbers = {
        "T_f": tokens_in_flight(micro_batch) - (micro_batch.tokens if others_only else 0),
        "a_k": kept_per_token(micro_batch),
        "v_p": parallel.virtual_pipeline,
        "T_p": parallel.tensor,
    }
    upper = ceil(numbers["T_f"] * imbalance_per_token(micro_batch) / (numbers["v_p"] * numbers["T_p"]))
    return _activations("saved_activations", saved_activation_bytes, numbers, upper=upper)


def recomputed_layer_bytes(*, n_r: int, T: int, a_m: int, T_p: int) -> int:
    """The layers that the backward pass has computed again: one, or as many as are recomputed at once.

    Source: Megatron-Core ``transformer/transformer_block.py`` (``_checkpointed_forward``).
    """
    return ceil_div(n_r * T * a_m, T_p)


def recomputed_layers(micro_batch: PassInput, layer: int) -> Term | None:
    """Layers like this one, computed again; None where nothing is."""
    engine = micro_batch.engine
    if engine.checkpointing is not Checkpointing.FULL or engine.recompute_first_layers == 0:
        return None
    layers = stage_layers(micro_batch.model, engine.parallel, stage_of(engine))
    numbers = {
        "n_r": min(engine.recompute_layers, len(layers)),
        "T": micro_batch.tokens,
        "a_m": layer_bytes(micro_batch.model, engine, layer),
        "T_p": engine.parallel.tensor,
    }
    unbalanced = imbalance_bytes(micro_batch.model, engine, layer)
    upper = ceil(numbers["n_r"] * numbers["T"] * unbalanced / numbers["T_p"])
    return _activations("recomputed_layers", recomputed_layer_bytes, numbers, upper=upper)


def layer_backward_bytes(
    *, T: int, a_i: int, a_p: int, g_1: int, g_2: int, w_1: int, w_2: int, u: int, T_p: int
) -> int:
    r"""Gradients in flight in the backward pass of one layer.

    The gradient of the residual stream, and the largest of three moments: the activation, the
    second projection before it, the first after it, when :math:`u \, a_p` of what the layer kept is
    free. The sizes are those of :func:`~tuner.memory.megatron.layers.backward_sizes`.

    Source: Transformer Engine ``pytorch/module/linear.py``, ``layernorm_linear.py`` (``backward``).
    """
    gradients = largest(
        2 * T * a_p,
        T * a_p + T * g_2 + T_p * w_2,
        T * g_1 + T_p * w_1 - u * T * a_p,
    )
    return ceil_div(T * a_i + gradients, T_p)


def layer_backward(micro_batch: PassInput, layer: int) -> Term:
    """Gradients in flight while a layer works backward."""
    model, engine = micro_batch.model, micro_batch.engine
    sizes = backward_sizes(model, engine, layer)
    numbers = {
        "T": micro_batch.tokens,
        "a_i": engine.compute_dtype.bytes * model.hidden,
        "a_p": sizes.activated,
        "g_1": sizes.gathered_input,
        "g_2": sizes.gathered_output,
        "w_1": sizes.first,
        "w_2": sizes.second,
        "u": 1 if engine.fused_layers else 2 + engine.offsets_gated,
        "T_p": engine.parallel.tensor,
    }
    return _activations("layer_backward", layer_backward_bytes, numbers)


def layer_forward_bytes(*, T: int, a_f: int, T_p: int) -> int:
    """The largest layer of a pass without gradients.

    :math:`a_f` is :func:`~tuner.memory.megatron.layers.forward_bytes`.

    Source: Transformer Engine ``pytorch/module/layernorm_linear.py``, ``linear.py`` (``forward``).
    """
    return ceil_div(T * a_f, T_p)


def layer_forward(micro_batch: PassInput) -> Term:
    """The largest layer of the stage."""
    model, engine = micro_batch.model, micro_batch.engine
    numbers = {
        "T": micro_batch.tokens,
        "a_f": max(forward_bytes(model, engine, layer) for layer in layer_kinds(micro_batch)),
        "T_p": engine.parallel.tensor,
    }
    return _activations("layer_forward", layer_forward_bytes, numbers)


def final_norm_bytes(*, T: int, b_c: int, H: int, T_p: int) -> int:
    """The final norm on the last stage: its input, and its output for the head.

    Source: Megatron-Core ``transformer/transformer_block.py`` (``final_layernorm``).
    """
    return ceil_div(2 * T * b_c * H, T_p)


def final_norm(micro_batch: PassInput) -> Term:
    """What the final norm keeps."""
    engine = micro_batch.engine
    numbers = {
        "T": micro_batch.tokens,
        "b_c": engine.compute_dtype.bytes,
        "H": micro_batch.model.hidden,
        "T_p": engine.parallel.tensor,
    }
    return _activations("final_norm", final_norm_bytes, numbers)


def batch_bytes(*, T: int, a_b: int) -> int:
    """Ids, positions, masks and losses of a micro-batch, and the rotary tables.

    :math:`a_b` is :func:`~tuner.memory.layer.activations.shared_token_bytes`; pipeline and tensor
    parallelism divide none of it.

    Source: verl ``models/mcore/model_forward.py``.
    """
    return T * a_b


def batch(micro_batch: PassInput) -> Term:
    """What a stage holds of the batch itself."""
    numbers = {
        "T": micro_batch.tokens,
        "a_b": activations.shared_token_bytes(micro_batch.model, micro_batch.engine),
    }
    return _activations("batch", batch_bytes, numbers)


def layer_kinds(micro_batch: PassInput) -> tuple[int, ...]:
    """One layer of each kind that this stage has."""
    model, parallel = micro_batch.model, micro_batch.engine.parallel
    layers = stage_layers(model, parallel, stage_of(micro_batch.engine))
    return tuple({model.kind(layer): layer for layer in layers}.values())
