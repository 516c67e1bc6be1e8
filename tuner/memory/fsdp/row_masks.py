"""The mask of attention that pairs all tokens of a row under FSDP, and what eager attention keeps of them."""

from collections.abc import Sequence

from tuner.evidence import Evidence
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.ledger.stated_terms import Size, stated
from tuner.memory.ledger.terms import Item, Moment, Term
from tuner.workload import Attention, Checkpointing

SYMBOLS = {
    "R": "tokens of a row, all of which attention pairs",
    "b_p": "bytes of a probability that eager attention keeps",
    "n_m": "layers whose mask or probabilities are kept",
}
_FLOAT32 = 4

#: Where the model's forward pass holds the mask, and a layer works with one of its own or does not.
_FORWARD = ("first_layer", "layer_gather", "layer_forward", "head_gather")
_HELD = (
    "forward_end",
    "head_backward",
    "root_gather",
    "logits_backward",
    "projection_backward",
    "head_reduce",
)
_LAYERS = ("last_layer_backward", "layer_backward", "first_layer_backward")


def row_mask_bytes(*, T: int, R: int) -> int:
    """A boolean for each pair of tokens in a row.

    The model makes it once for all layers; layers that are computed again hold it as an argument until the
    first one has been.

    Source: transformers 4.57.6 ``masking_utils.py`` (``sdpa_mask``); torch ``utils/checkpoint.py``.
    """
    return T * R


def whole_mask_bytes(*, b_c: int, T: int, R: int) -> int:
    """Numbers to add to scores in the place of booleans, of a row that is one sequence to the model.

    Source: transformers 4.52.4 ``models/qwen2/modeling_qwen2.py`` (``_update_causal_mask``).
    """
    return b_c * T * R


def working_mask_bytes(*, b_c: int, T: int, R: int) -> int:
    """A layer's mask of numbers to add to scores, and its copy in rows that are aligned.

    Source: torch ``aten/src/ATen/native/transformers/attention.cpp`` (``scaled_dot_product_attention``,
    ``convert_boolean_attn_mask``, ``pad_bias``).
    """
    return 2 * b_c * T * R


def saved_masks_bytes(*, n_m: int, b_c: int, T: int, R: int) -> int:
    """The copies alone, which attention saves for its backward pass, of each layer that keeps what it saves.

    Source: torch ``tools/autograd/derivatives.yaml`` (``_scaled_dot_product_efficient_attention``).
    """
    return n_m * b_c * T * R


def saved_probabilities_bytes(*, n_m: int, h: int, b_p: int, T: int, R: int) -> int:
    """What eager attention saves of every pair and head: softmax in float32, and its cast for the product.

    Source: transformers 4.57.6 ``models/qwen3/modeling_qwen3.py`` (``eager_attention_forward``: ``softmax``
    with ``dtype=torch.float32``, then ``to(query.dtype)``); torch ``tools/autograd/derivatives.yaml``
    (``_softmax``, ``bmm``).
    """
    return n_m * h * b_p * T * R


def working_scores_bytes(*, h: int, b_c: int, T: int, R: int) -> int:
    """Scores of one layer with their mask, their copy in float32 and its softmax, all there at once.

    Source: transformers 4.57.6 ``models/qwen3/modeling_qwen3.py`` (``eager_attention_forward``); torch
    ``aten/src/ATen/native/SoftMax.cpp`` (``softmax``: bfloat16 is converted first).
    """
    return h * (b_c + 2 * _FLOAT32) * T * R


def score_gradients_bytes(*, h: int, T: int, R: int) -> int:
    """The gradient of one layer's softmax and that of the scores before it, both in float32.

    Source: torch ``tools/autograd/derivatives.yaml`` (``_softmax``, ``_to_copy``).
    """
    return 2 * h * _FLOAT32 * T * R


def with_row_masks(moments: Sequence[Moment], pass_input: PassInput, *, training: bool) -> tuple[Moment, ...]:
    """The moments of a pass with the masks that there are then.

    A layer's backward pass has the largest of its moments with the mask that it has saved, and the forward
    pass that is computed again before is not a moment of its own.

    Args:
        moments: as they are without.
        pass_input: the pass.
        training: whether it has a backward pass.
    """
    of_booleans = pass_input.engine.attention is Attention.MASKED_ROWS
    whole = _term(pass_input, "row_mask", row_mask_bytes if of_booleans else whole_mask_bytes)
    if pass_input.engine.attention is Attention.EAGER_ROWS:
        return _with_scores(moments, pass_input, whole, training=training)
    if not training:
        working = _term(pass_input, "working_mask", working_mask_bytes)
        return tuple(
            _with(at, whole, working if at.name == "layer_forward" else None) if at.name in _FORWARD else at
            for at in moments
        )
    return tuple(_beside_training(at, pass_input, whole) for at in moments)


def _beside_training(at: Moment, pass_input: PassInput, whole: Term) -> Moment:
    """A moment of a training pass: what layers that are computed again were given, or what all have saved."""
    recomputes, layers = pass_input.engine.checkpointing is Checkpointing.FULL, pass_input.model.layers
    if at.name in _LAYERS:
        number = 1 if recomputes or at.name == "first_layer_backward" else layers
        own = _term(pass_input, "saved_masks", saved_masks_bytes, n_m=number)
        return _with(at, whole if recomputes else None, own)
    if at.name not in _HELD:
        return at
    return _with(at, whole if recomputes else _term(pass_input, "saved_masks", saved_masks_bytes, n_m=layers))


def _with_scores(
    moments: Sequence[Moment], pass_input: PassInput, mask: Term, *, training: bool
) -> tuple[Moment, ...]:
    """The moments of a pass of eager attention, whose layers add one mask of numbers to their scores."""
    recomputes, layers = pass_input.engine.checkpointing is Checkpointing.FULL, pass_input.model.layers
    heads, compute = pass_input.model.heads, pass_input.engine.compute_dtype.bytes
    cast = compute if compute < _FLOAT32 else 0  # else it is the softmax itself

    def saved(number: int) -> Term:
        numbers = {"n_m": number, "h": heads, "b_p": _FLOAT32 + cast, "b_c": None}
        return _term(pass_input, "probabilities", saved_probabilities_bytes, **numbers)

    def at_one(at: Moment) -> Moment:
        if not training:
            working = _term(pass_input, "working_scores", working_scores_bytes, h=heads)
            inside = working if at.name == "layer_forward" else None
            return _with(at, mask, inside) if at.name in _FORWARD else at
        if at.name in _LAYERS:
            probabilities = saved(1 if recomputes or at.name == "first_layer_backward" else layers)
            gradients = _term(pass_input, "score_gradients", score_gradients_bytes, b_c=None, h=heads)
            return _with(at, mask, probabilities, gradients)
        return _with(at, mask, None if recomputes else saved(layers)) if at.name in _HELD else at

    return tuple(map(at_one, moments))


def row_tokens_of(pass_input: PassInput) -> int:
    """Tokens of a row: of a sequence that is padded, or of the whole micro-batch."""
    tokens = pass_input.tokens
    return tokens if pass_input.row_tokens is None else min(tokens, pass_input.row_tokens)


def _term(pass_input: PassInput, name: str, size: Size, **more: int | None) -> Term:
    values = {
        "T": pass_input.tokens,
        "R": row_tokens_of(pass_input),
        "b_c": pass_input.engine.compute_dtype.bytes,
        **more,
    }
    numbers = {symbol: number for symbol, number in values.items() if number is not None}
    return stated(Item.ACTIVATIONS, name, size, numbers, evidence=Evidence.MODELLED)


def _with(at: Moment, *terms: Term | None) -> Moment:
    return Moment(name=at.name, terms=(*at.terms, *(term for term in terms if term is not None)))
