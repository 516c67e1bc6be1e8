"""Terms of a pass of one Megatron stage: what the activations and their gradients take.

Symbols: :math:`T` tokens of the rank before sequence parallelism divides them, :math:`T_p`
tensor parallel size, :math:`b` bytes of the compute dtype, :math:`H` hidden, :math:`V` vocabulary.
"""

from math import ceil

from tuner.memory import model_states
from tuner.memory.layer import activations
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron.layers import backward_sizes, forward_bytes, layer_bytes
from tuner.memory.megatron.stages import in_flight, stage_layers
from tuner.memory.pass_terms import PassInput, term
from tuner.workload import Checkpointing, Engine


def stage_of(engine: Engine) -> int:
    """The pipeline stage that is asked about, the first where none is."""
    return engine.parallel.stage or 0


def is_last(engine: Engine) -> bool:
    """Whether the stage that is asked about is the one with the head."""
    return stage_of(engine) == engine.parallel.pipeline - 1


def kept_per_token(given: PassInput) -> int:
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
    model, engine = given.model, given.engine
    layers = stage_layers(model, engine.parallel, stage_of(engine))
    covered = 0
    if engine.checkpointing is Checkpointing.FULL:
        first = engine.recompute_first_layers
        covered = len(layers) if first is None else min(first, len(layers))
    sent = 0 if is_last(engine) or engine.frees_stage_outputs else 1
    states = (ceil(covered / engine.recompute_layers) + sent) * engine.compute_dtype.bytes * model.hidden
    kinds: dict[tuple[bool, bool], list[int]] = {}
    for layer in layers[covered:]:
        kinds.setdefault((model.is_linear(layer), model.is_sparse(layer)), []).append(layer)
    return states + sum(len(same) * layer_bytes(model, engine, same[0]) for same in kinds.values())


def _term(item: Item, name: str, size: int, formula: str, **symbols: float) -> Term:
    """A term of this module, whose deriving function has the term's name."""
    source = f"memory.megatron.terms.{name}"
    return term(item, name, size, formula, symbols=symbols, source=source)


def _divided(size: int, by: int) -> int:
    return -(-size // by)


def tokens_in_flight(given: PassInput) -> int:
    """Tokens of the micro-batches in flight on a stage, in pieces of it; no more than a step has."""
    parallel, pieces = given.engine.parallel, given.engine.parallel.virtual_pipeline
    flight = round(in_flight(parallel, stage_of(given.engine), given.micro_batches) * pieces)
    of_step = flight * given.tokens if given.step_tokens is None else pieces * given.step_tokens
    return min(flight * given.tokens, of_step)


def saved_activations(given: PassInput, *, others_only: bool = False) -> Term:
    r"""Activations of all micro-batches in flight.

    .. math:: T_f \, a_k / (v_p \, T_p), \qquad T_f = \min(v_p f \, T, \; v_p T_m)

    :math:`a_k` bytes per token (:func:`~tuner.memory.megatron.terms.kept_per_token`) of :math:`f`
    micro-batches (:func:`~tuner.memory.megatron.stages.in_flight`), which are never more than the
    :math:`T_m` tokens of the optimizer step; counted in the :math:`v_p` pieces of a stage. At the end
    of a micro-batch's backward pass its own are gone.

    Source: Megatron-Core ``pipeline_parallel/schedules.py``, ``transformer/transformer_block.py``.

    Args:
        given: the pass.
        others_only: True for those of all micro-batches but one.
    """
    parallel, tokens, kept = given.engine.parallel, tokens_in_flight(given), kept_per_token(given)
    if others_only:
        tokens -= given.tokens
    return _term(
        Item.ACTIVATIONS,
        "saved_activations",
        _divided(tokens * kept, parallel.virtual_pipeline * parallel.tensor),
        "T_f a_k / (v_p T_p)",
        T_f=tokens,
        a_k=kept,
        v_p=parallel.virtual_pipeline,
        T_p=parallel.tensor,
    )


def recomputed_layers(given: PassInput, layer: int) -> Term | None:
    r"""The layers that the backward pass has computed again.

    .. math:: n_r \, T a_m / T_p

    One, or as many as are recomputed at once; None where nothing is.

    Source: Megatron-Core ``transformer/transformer_block.py`` (``_checkpointed_forward``).
    """
    engine = given.engine
    if engine.checkpointing is not Checkpointing.FULL or engine.recompute_first_layers == 0:
        return None
    count = min(engine.recompute_layers, len(stage_layers(given.model, engine.parallel, stage_of(engine))))
    kept = layer_bytes(given.model, engine, layer)
    return _term(
        Item.ACTIVATIONS,
        "recomputed_layers",
        _divided(count * given.tokens * kept, engine.parallel.tensor),
        "n_r T a_m / T_p",
        n_r=count,
        T=given.tokens,
        a_m=kept,
        T_p=engine.parallel.tensor,
    )


def layer_backward(given: PassInput, layer: int) -> Term:
    r"""Gradients in flight in the backward pass of one layer.

    .. math:: \frac{1}{T_p} \Bigl(T a_i + \max\bigl(2 T a_p, \;
              T a_p + T g_2 + T_p w_2, \; T g_1 + T_p w_1 - u T a_p\bigr)\Bigr)

    The gradient of the residual stream, and the largest of three moments: the activation, the
    second projection before it, the first after it, when :math:`u \, a_p` of what the layer kept is
    free. The sizes are those of :func:`~tuner.memory.megatron.layers.backward_sizes`.

    Source: Transformer Engine ``pytorch/module/linear.py``, ``layernorm_linear.py`` (``backward``).
    """
    model, engine, tokens = given.model, given.engine, given.tokens
    sizes, ranks = backward_sizes(model, engine, layer), engine.parallel.tensor
    freed = 1 if engine.fused_layers else 2
    residual = engine.compute_dtype.bytes * model.hidden
    largest = max(
        2 * tokens * sizes.activated,
        tokens * (sizes.activated + sizes.gathered_output) + ranks * sizes.second,
        tokens * (sizes.gathered_input - freed * sizes.activated) + ranks * sizes.first,
    )
    return _term(
        Item.ACTIVATIONS,
        "layer_backward",
        _divided(tokens * residual + largest, ranks),
        "(T a_i + max(2 T a_p, T a_p + T g_2 + T_p w_2, T g_1 + T_p w_1 - u T a_p)) / T_p",
        T=tokens,
        a_i=residual,
        a_p=sizes.activated,
        g_1=sizes.gathered_input,
        g_2=sizes.gathered_output,
        w_1=sizes.first,
        w_2=sizes.second,
        u=freed,
        T_p=ranks,
    )


def layer_forward(given: PassInput) -> Term:
    r"""The largest layer of a pass without gradients.

    .. math:: T a_f / T_p

    :math:`a_f` is :func:`~tuner.memory.megatron.layers.forward_bytes`.

    Source: Transformer Engine ``pytorch/module/layernorm_linear.py``, ``linear.py`` (``forward``).
    """
    model, engine = given.model, given.engine
    size = max(forward_bytes(model, engine, layer) for layer in layer_kinds(given))
    return _term(
        Item.ACTIVATIONS,
        "layer_forward",
        _divided(given.tokens * size, engine.parallel.tensor),
        "T a_f / T_p",
        T=given.tokens,
        a_f=size,
        T_p=engine.parallel.tensor,
    )


def final_norm(given: PassInput) -> Term:
    r"""The final norm on the last stage: its input, and its output for the head.

    .. math:: 2 \, T b_c H / T_p

    Source: Megatron-Core ``transformer/transformer_block.py`` (``final_layernorm``).
    """
    hidden, ranks, compute = (
        given.model.hidden,
        given.engine.parallel.tensor,
        given.engine.compute_dtype.bytes,
    )
    return _term(
        Item.ACTIVATIONS,
        "final_norm",
        _divided(2 * given.tokens * compute * hidden, ranks),
        "2 T b_c H / T_p",
        T=given.tokens,
        b_c=compute,
        H=hidden,
        T_p=ranks,
    )


def optimizer_step(given: PassInput) -> Term:
    """What a step allocates, see :func:`~tuner.memory.model_states.optimizer_step_bytes`."""
    model, engine = given.model, given.engine
    return term(
        Item.OPTIMIZER,
        "optimizer_step",
        model_states.optimizer_step_bytes(model, engine),
        "4 N_o (1 - f_o)",
        symbols={
            "N_o": model_states.megatron_optimizer_share(model, engine),
            "f_o": engine.optimizer_offload_fraction,
        },
        source="memory.model_states.optimizer_step_bytes",
    )


def batch(given: PassInput) -> Term:
    r"""Ids, positions, masks and losses of a micro-batch, and the rotary tables.

    .. math:: T a_b

    :math:`a_b` is :func:`~tuner.memory.layer.activations.shared_token_bytes`; pipeline and tensor
    parallelism divide none of it.

    Source: verl ``models/mcore/model_forward.py``.
    """
    per_token = activations.shared_token_bytes(given.model, given.engine)
    return _term(Item.ACTIVATIONS, "batch", given.tokens * per_token, "T a_b", T=given.tokens, a_b=per_token)


def layer_kinds(given: PassInput) -> tuple[int, ...]:
    """One layer of each kind that this stage has."""
    model, parallel = given.model, given.engine.parallel
    layers = stage_layers(model, parallel, stage_of(given.engine))
    return tuple({(model.is_linear(layer), model.is_sparse(layer)): layer for layer in layers}.values())
