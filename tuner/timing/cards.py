"""How near to their data sheet's peak cards come that have no table of their own.

One card's table is carried over to another: what its operators spend on arithmetic goes with the other card's
arithmetic, and what they spend beside it goes with its memory.
"""

from msgspec import Struct

from tuner.hardware import Gpu
from tuner.timing import assumptions as assume

#: Dense peak in bfloat16 below which a Hopper card is one with fewer tensor cores and no less power.
_CUT_HOPPER_FLOP_PER_S = 3e14


class Attained(Struct, frozen=True, kw_only=True):
    """Share of the dense peak in bfloat16 that large products reach for minutes on end, with its interval."""

    typical: float
    low: float
    high: float
    source: str


_HOPPER = Attained(
    typical=assume.LARGE_PRODUCT_SHARE,
    low=0.60,
    high=0.80,
    source="measured on an H100 and an H200 for a second on end; high: a short burst",
)

#: Products that the card's power does not hold back reach what those of zeros reach on an H200, of the same
#: architecture: 894 of 989 TFLOP/s.
_CUT_HOPPER = Attained(
    typical=0.90,
    low=0.80,
    high=0.95,
    source="products of zeros, which draw little power, on an H200: 894 of 989 TFLOP/s",
)

#: By architecture. The burst figures are those of the table of maximum achievable matmul FLOPS in stas00's
#: ml-engineering (compute/accelerator); a card of it that was measured here too holds 0.70 of 0.80 for a
#: second on end, and the same part of a burst is taken for the others.
_BY_ARCHITECTURE = {
    "sm_80": Attained(typical=0.75, low=0.65, high=0.86, source="268 of 312 TFLOP/s in a burst"),
    "sm_100": Attained(typical=0.68, low=0.55, high=0.78, source="1,745 of 2,250 TFLOP/s in a burst"),
    "gfx942": Attained(typical=0.53, low=0.40, high=0.60, source="782 of 1,307 TFLOP/s in a burst"),
}

#: Nothing is known of the rest: the measured share, and all that the others span.
_OTHERS = Attained(typical=assume.LARGE_PRODUCT_SHARE, low=0.40, high=0.95, source="the H100's share")


def attained(gpu: Gpu) -> Attained:
    """Share of its peak that large products reach on a card.

    Hopper cards were measured, and so was what holds them back: power. A card of that architecture with a
    fraction of its tensor cores and all of its power is not held back.
    """
    if gpu.architecture == "sm_90":  # asked thousands of times, so without a further call
        return _CUT_HOPPER if gpu.dense_bf16_flop_per_s < _CUT_HOPPER_FLOP_PER_S else _HOPPER
    return _BY_ARCHITECTURE.get(gpu.architecture, _OTHERS)


def is_whole_hopper(gpu: Gpu) -> bool:
    """Whether a card computes as the H100 and the H200 do, whose kernels were measured."""
    return gpu.architecture == "sm_90" and gpu.dense_bf16_flop_per_s >= _CUT_HOPPER_FLOP_PER_S


def carried_share(share: float, *, flop_per_s: float, memory_bytes_per_s: float, gpu: Gpu) -> float:
    """The share of an operator on another card than the one that it was measured on.

    Seconds per FLOP of the peak are ``1 / s``. Of these ``1 / e`` are what large products take, which is
    arithmetic; the rest, ``1 / s - 1 / e``, is reading, writing and waiting. On another card that reaches a
    share e' in large products, with R' / R of the arithmetic and B' / B of the bandwidth,
    ``1 / s' = 1 / e' + (1 / s - 1 / e) (R' / R) (B / B')``.

    Args:
        share: s, on the measured card.
        flop_per_s: R, dense peak in bfloat16 of the measured card, of its data sheet as the next.
        memory_bytes_per_s: B, bandwidth of the measured card.
        gpu: the other card.
    """
    inverse_share = max(0.0, 1 / share - 1 / assume.LARGE_PRODUCT_SHARE)
    arithmetic = gpu.dense_bf16_flop_per_s / flop_per_s
    bandwidth = gpu.memory_bytes_per_s / memory_bytes_per_s
    return 1 / (1 / attained(gpu).typical + inverse_share * arithmetic / bandwidth)
