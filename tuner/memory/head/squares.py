r"""The sum of squared probabilities: at most how much it takes beside the logits; nothing is counted.

Symbols: :math:`T` tokens, :math:`V` vocabulary, :math:`b` bytes of the logits' dtype, :math:`T_p` tensor
parallel size.
"""

from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.terms import Item, Moment, Term
from tuner.memory.process.constant import Constant, heuristic
from tuner.workload import HeadKind

SYMBOLS = {
    "g": "1 where every tensor of it exists at once, 0 where a compiled kernel keeps none",
    "b_f": "bytes of float32 copies that exist at once, of a logit",
}

_KEPT = Constant(
    low=0, typical=0, high=1, source="none where it is one compiled kernel, else one for each operator"
)

#: Bytes of a logit in float32: of the logits doubled or shifted, cast, and their exponential.
_FORWARD_BYTES = 8
#: In a pass with gradients both casts are saved, beside the exponential.
_SAVED_BYTES = 12


def squares_bytes(*, g: int, b: int, b_f: int, T: int, V: int, T_p: int) -> int:
    """The logits doubled, and what two sums of exponentials make of them in float32, at most.

    A release that computes it in the update as well saves what its backward pass would need, although the
    loss does not use it.

    Source: verl 0.7.1 ``utils/torch_functional.py`` (``calculate_sum_pi_squared_from_logits``),
    ``workers/actor/dp_actor.py``; 0.9.1 ``workers/engine/fsdp/transformer_impl.py``,
    ``utils/megatron/tensor_parallel.py`` (``vocab_parallel_sum_pi_squared``).
    """
    return g * ceil_div((b + b_f) * T * V, T_p)


def squares_term(pass_input: PassInput, *, tokens: int, training: bool) -> Term | None:
    """What the sum may take in a pass with these tokens, None where it is not computed.

    Args:
        pass_input: the pass.
        tokens: the most that a micro-batch may have.
        training: whether the pass has gradients.
    """
    if not pass_input.squares or pass_input.head.kind is not HeadKind.LOGITS:
        return None
    numbers = {
        "b": pass_input.head.logits_dtype.bytes,
        "b_f": _SAVED_BYTES if training else _FORWARD_BYTES,
        "T": tokens if pass_input.response is None else pass_input.response.rows(tokens),
        "V": pass_input.model.vocab,
        "T_p": pass_input.engine.parallel.tensor,
    }
    return heuristic(Item.LOGITS, "sum_of_squares", squares_bytes, {"g": _KEPT}, numbers)


def holds_squares(moment: Moment, *, training: bool) -> bool:
    """Whether a moment may hold it: where logits exist, and all of a pass that saves it."""
    return training or any(term.item is Item.LOGITS for term in moment.terms)
