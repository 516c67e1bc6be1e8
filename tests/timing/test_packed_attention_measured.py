"""Passes whose attention pairs the tokens of a packed row, as they were measured on two H200.

The shares of the kernels are those of single layers, of another file; these passes are of 28 layers, sharded.
"""

import json
from typing import Any

import pytest

from tests.cli.runner import ROOT
from tuner.accuracy.measured_files import MeasuredCase
from tuner.accuracy.passes import pass_interval
from tuner.accuracy.workload import workload_of
from tuner.dtypes import DType
from tuner.gpus import find_gpu
from tuner.timing.mask_kernels import mask_kernel
from tuner.timing.rates import layer_attention_flop_per_s
from tuner.workload import Attention

DATA = ROOT / "docs/validation/data"
FILE = DATA / "packed-attention-update-2xh200.json"
LAYERS = DATA / "packed-attention-2xh200.json"
H200 = find_gpu("h200-sxm")
_BACKWARD = ("bprop", "cutlassB")
CASES: list[dict[str, Any]] = [
    case for case in json.loads(FILE.read_text())["cases"] if case["attention"] == "sdpa"
]
OF_KERNEL = {"cuDNN": "2.11.0", "memory-efficient": "2.8.0"}  # a torch that chooses it
NOT_OF_A_CASE = ("attention", "kernel", "kernels", "repeated_seconds")


@pytest.mark.parametrize("kernel", OF_KERNEL)
def test_measured_passes_lie_inside(kernel: str) -> None:
    cases = [case for case in CASES if case["kernel"] == kernel]
    assert len(cases) == 8
    for record in cases:
        case = MeasuredCase.model_validate(
            {name: value for name, value in record.items() if name not in NOT_OF_A_CASE}
        )
        workload = workload_of(case).with_actor_engine(
            attention=Attention.MASKED_ROWS, torch=OF_KERNEL[kernel]
        )
        predicted = pass_interval(workload, H200, training=case.trains)
        measured = record["seconds"]
        assert predicted.low_s <= measured <= predicted.high_s
        if case.tokens >= 8192:  # fewer wait for the host
            assert predicted.seconds == pytest.approx(measured, rel=0.07)


def shares(row: dict[str, Any]) -> tuple[float, float]:
    """The rate over all pairs of a row, over that of flash attention as the tables have it."""
    seconds = [0.0, 0.0]
    for name, _, taken in row["kernels"]["attention"]:
        seconds[any(part in name for part in _BACKWARD)] += taken
    flop = 4 * row["tokens"] ** 2 * row["heads"] * row["head_dim"] * row["layers"]
    rates = (
        layer_attention_flop_per_s(H200, head_dim=row["head_dim"], tokens=row["tokens"], backward=backward)
        for backward in (False, True)
    )
    forward, backward = (
        times * flop / taken / rate for times, taken, rate in zip((1, 2.5), seconds, rates, strict=True)
    )
    return forward, backward


@pytest.mark.parametrize(("cudnn", "torch"), [(True, "2.11.0"), (False, "2.8.0")])
def test_shares_span_the_measured_layers(cudnn: bool, torch: str) -> None:
    """With sequences apart, and with rows that are one sequence and reach a window that nothing uses."""
    measured = [
        shares(row)
        for row in json.loads(LAYERS.read_text())["rows"]
        if row["attention"] == "sdpa" and row["cudnn"] is cudnn
        if not row["sees_others"] or (row["transformers"] == "4.52.4" and row["sliding_window"] == 4096)
    ]
    assert len(measured) == 32
    kernel = mask_kernel(H200, torch, head_dim=128, dtype=DType.BFLOAT16)
    for direction in (0, 1):
        ends = [one[direction] for one in measured]
        assert kernel.slowest[direction] == pytest.approx(min(ends), abs=0.006)
        assert kernel.fastest[direction] == pytest.approx(max(ends), abs=0.006)
        middle = (kernel.slowest[direction] + kernel.fastest[direction]) / 2
        assert kernel.typical[direction] == pytest.approx(middle, abs=0.006)
