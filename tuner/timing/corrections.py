"""Corrections of modelled rates by what one card showed at a few shapes, by family of operators."""

from tuner.enumeration import Enum
from tuner.hardware import Gpu


class OperatorFamily(Enum):
    """Operators whose rates are off together; the values are fields of ``tuner.hardware.MeasuredGpu``."""

    PRODUCTS = "products_factor"
    ATTENTION = "attention_factor"
    ELEMENTWISE = "elementwise_factor"
    HEAD = "head_factor"
    HOST = "host_factor"
    ENGINE = "engine_factor"  # steps that the host of a rollout engine prepares
    ENGINE_SEQUENCE = "engine_sequence_factor"  # what such a step takes for each sequence, where told apart


def correction(gpu: Gpu, family: OperatorFamily) -> float:
    """The measured rate of a family over the one that is modelled without it; 1 where nobody measured it."""
    # Of many cards the usable memory alone is known; this is asked thousands of times.
    if gpu.measured is None or not gpu.measured.has_factors:
        return 1.0
    factor: float | None = getattr(gpu.measured, family.value)
    if factor is None and family is OperatorFamily.ENGINE_SEQUENCE:
        return correction(gpu, OperatorFamily.ENGINE)
    return 1.0 if factor is None else factor
