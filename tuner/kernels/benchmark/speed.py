"""The matrix products alone, the floor under every head, and the speed of the heads beside them.

T: rows (tokens). V: vocabulary entries. H: hidden size. N: entries of a slice.
"""

from collections.abc import Callable, Mapping, Sequence

import torch

from tuner.kernels.benchmark.heads import Head
from tuner.kernels.benchmark.problem import Problem, ProblemShape
from tuner.kernels.benchmark.report import Passes, Speed, Times
from tuner.kernels.benchmark.rivals import VERL_TRITON
from tuner.kernels.benchmark.timing import Timed

WIDTH = 8192  # vocabulary entries of one slice
_BURST = 8192  # rows, columns and depth of the product that shows the device's rate
BURST_FLOP = 2 * _BURST**3
_WARM_PRODUCTS = 30  # 50 ms on an H200: longer than its clocks take to follow the load


def bare_products(problem: Problem) -> dict[str, Callable[[], object]]:
    """Each product over the whole vocabulary in slices, the results kept or overwritten."""
    hidden_TH, weight_VH = problem.hidden_TH.detach(), problem.weight_VH.detach()
    logits_TN = hidden_TH.new_empty((hidden_TH.shape[0], WIDTH)).normal_()
    d_hidden_TH, d_weight_NH = torch.empty_like(hidden_TH), weight_VH.new_empty((WIDTH, weight_VH.shape[1]))
    slices = weight_VH.split(WIDTH)

    def logits() -> None:
        for part_NH in slices:
            torch.mm(hidden_TH, part_NH.T, out=logits_TN[:, : len(part_NH)])

    def d_hidden() -> None:
        for part_NH in slices:
            torch.mm(logits_TN[:, : len(part_NH)], part_NH, out=d_hidden_TH)

    def d_weight() -> None:
        for part_NH in slices:
            torch.mm(logits_TN[:, : len(part_NH)].T, hidden_TH, out=d_weight_NH[: len(part_NH)])

    return {"bare logits": logits, "bare d_hidden": d_hidden, "bare d_weight": d_weight}


def burst(device: str) -> Callable[[], object]:
    """A product that shows the device's rate: ``BURST_FLOP`` operations."""
    left, right = (torch.randn(_BURST, _BURST, device=device, dtype=torch.bfloat16) for _ in range(2))
    return lambda: left @ right


def warm_up(device: str) -> Callable[[], object]:
    """A call to make before each timed one: products for so long that the clocks are those of steady work.

    Nothing on a CPU, where no times are told.
    """
    if not device.startswith("cuda"):
        return lambda: None
    product = burst(device)

    def run() -> None:
        for _ in range(_WARM_PRODUCTS):
            product()

    return run


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
