"""What the times of a head come to: shares of the bare products', and the ratio to verl's kernel."""

from collections.abc import Mapping, Sequence

from tuner.kernels.benchmark.heads import Head
from tuner.kernels.benchmark.problem import ProblemShape
from tuner.kernels.benchmark.products import BURST_FLOP
from tuner.kernels.benchmark.report import Passes, Speed, Times
from tuner.kernels.benchmark.rivals import VERL_TRITON
from tuner.kernels.benchmark.timing import Timed


def speeds(shape: ProblemShape, heads: Sequence[Head], times: Mapping[str, Timed]) -> dict[str, Speed]:
    """How fast every head is that was timed, by its name.

    Args:
        shape: of the inputs.
        heads: those that are right.
        times: of ``bare ...``, of ``burst`` and of ``<head>: <pass>``.
    """
    return {head.name: _speed(shape, head, times) for head in heads if f"{head.name}: both" in times}


def _speed(shape: ProblemShape, head: Head, times: Mapping[str, Timed]) -> Speed:
    def median(name: str) -> float:
        return times[name].median_ms

    forward, both = median(f"{head.name}: forward"), median(f"{head.name}: both")
    logits = median("bare logits")
    gradients = median("bare d_hidden") + median("bare d_weight")
    burst = shape.product_flop / BURST_FLOP * median("burst")
    few = times.get(f"{head.name}: few gradients")
    verl = f"{VERL_TRITON}: both" in times
    return Speed(
        forward=Times(**vars(times[f"{head.name}: forward"])),
        both=Times(**vars(times[f"{head.name}: both"])),
        share_of_products=Passes(
            forward=logits / forward, both=((head.products - 2) * logits + gradients) / both
        ),
        share_of_burst=Passes(forward=burst / forward, both=head.products * burst / both),
        over_verl_triton=Passes(
            forward=median(f"{VERL_TRITON}: forward") / forward, both=median(f"{VERL_TRITON}: both") / both
        )
        if verl
        else None,
        few_gradients=None if few is None else few.median_ms / both,
    )
