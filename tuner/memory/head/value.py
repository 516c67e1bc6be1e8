"""A critic's head: a single column in place of logits."""

from tuner.memory.ledger.stated_terms import Size

SYMBOLS = {
    "b": "bytes of a number in the dtype of the logits",
}


def column_bytes(*, T: int) -> int:
    """The values of a forward pass in float32.

    Source: verl ``workers/engine/fsdp/transformer_impl.py`` (``FSDPEngineWithValueHead``).
    """
    return 4 * T


def column_and_logits_bytes(*, T: int, V: int, b: int) -> int:
    """The values where trl wraps a language model: its logits too, and a float32 copy that nothing reads.

    Source: verl ``utils/model.py`` (``load_valuehead_model``); trl ``models/modeling_value_head.py``.
    """
    return 4 * T + (b + 4) * T * V


def column_training_bytes(*, T: int) -> int:
    """The values and their gradient.

    Source: verl ``workers/engine/fsdp/transformer_impl.py`` (``FSDPEngineWithValueHead``).
    """
    return 8 * T


def value_head_size(*, wraps_language_model: bool, training: bool) -> Size:
    """What sizes a value head; ``wraps_language_model`` where trl put it beside an output projection."""
    if training:
        return column_training_bytes
    return column_and_logits_bytes if wraps_language_model else column_bytes
