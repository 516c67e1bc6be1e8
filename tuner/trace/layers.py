"""Bytes per token of every kind of decoder layer, from counts at several numbers of tokens."""

from math import ceil
from typing import Any

from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.trace.count import count_layer
from tuner.traced_layers import LayerBytes

TOKENS = (4096, 8192, 16384)  # two give the line, the third must lie on it
MOST_CONSTANT = 0.01  # of a count, that may be independent of the tokens
RANKS = (1, 256)  # a peak grows convexly with the rank: between them the line is never below it


def trained_bytes(config: Any, layer: int) -> LayerBytes:
    """Bytes per token of a layer whose weights are trained.

    Raises:
        UnsupportedError: they are not proportional to the tokens.
    """
    return _per_token(config, layer, lora_rank=0)


def adapted_bytes(config: Any, layer: int) -> tuple[LayerBytes, LayerBytes] | None:
    """Bytes per token of a layer with adapters, at rank 0 and per rank; None where it cannot have them."""
    low, high = RANKS
    try:
        at_low = _per_token(config, layer, lora_rank=low)
        at_high = _per_token(config, layer, lora_rank=high)
    except (TypeError, AttributeError):  # a linear layer that does not return a tensor, or is no nn.Linear
        return None
    per_rank = LayerBytes(
        saved=ceil((at_high.saved - at_low.saved) / (high - low)),
        forward=ceil((at_high.forward - at_low.forward) / (high - low)),
        backward=ceil((at_high.backward - at_low.backward) / (high - low)),
        recomputed=ceil((at_high.recomputed - at_low.recomputed) / (high - low)),
    )
    return at_low.at_rank(per_rank, -low), per_rank


def _per_token(config: Any, layer: int, *, lora_rank: int) -> LayerBytes:
    counts = [
        count_layer(config, layer, tokens=tokens, lora_rank=lora_rank, checkpointed=True) for tokens in TOKENS
    ]
    return LayerBytes(
        saved=_slope(layer, "saved", [count.saved_bytes for count in counts]),
        forward=_slope(layer, "forward", [count.forward_peak_bytes for count in counts]),
        backward=_slope(layer, "backward", [count.backward_peak_bytes for count in counts]),
        recomputed=_slope(layer, "recomputed", [count.recomputed_peak_bytes for count in counts]),
    )


def _slope(layer: int, what: str, sizes: list[int]) -> int:
    """Bytes per token, never less than counted at the first number of tokens.

    What does not grow with the tokens, such as a router's weights in float32, is spread over those.
    """
    (first, second, third), (at_first, at_second, at_third) = TOKENS, sizes
    slope, rest = divmod(at_second - at_first, second - first)
    constant = at_first - slope * first
    if rest or at_third != slope * third + constant or abs(constant) > MOST_CONSTANT * at_first:
        counted = ", ".join(
            _("{size:,} at {tokens:,}").format(size=size, tokens=tokens)
            for tokens, size in zip(TOKENS, sizes, strict=True)
        )
        raise UnsupportedError(
            _(
                "the {what} bytes of decoder layer {layer} are not proportional to its tokens: "
                "{counted} tokens; a trace needs an implementation that attends through "
                "transformers' flash attention"
            ).format(what=what, layer=layer, counted=counted)
        )
    return max(slope, ceil(at_first / first))
