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
from tuner.gpus import find_gpu
from tuner.workload import Attention

FILE = ROOT / "docs/validation/data/packed-attention-update-2xh200.json"
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
        predicted = pass_interval(workload, find_gpu("h200-sxm"), training=case.trains)
        measured = record["seconds"]
        assert predicted.low_s <= measured <= predicted.high_s
        if case.tokens >= 8192:  # fewer wait for the host
            assert predicted.seconds == pytest.approx(measured, rel=0.07)
