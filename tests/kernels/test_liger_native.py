"""Liger's native kernels as a rival: when they can be measured, and what is set up before a call.

The packages are stood in for: they run on Hopper alone, and NVSHMEM needs a GPU.
"""

import sys
from dataclasses import replace
from io import StringIO
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

from tuner.kernels.benchmark import liger_native, measure, rivals
from tuner.kernels.benchmark.heads import Head
from tuner.kernels.benchmark.outcome import BenchmarkSettings
from tuner.kernels.benchmark.problem import ProblemShape, random_problem
from tuner.kernels.benchmark.progress import StepCounter
from tuner.kernels.benchmark.report import HeadResult, HeadStatus, Passes
from tuner.kernels.benchmark.rivals import LIGER_NATIVE, Missing

pytestmark = pytest.mark.triton

SHAPE = ProblemShape(tokens=5, hidden=8, vocabulary=33)
OTHER = ProblemShape(tokens=9, hidden=30, vocabulary=21)


class Native:
    """What stands in for both packages and for torch's process groups; it notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.supported = True
        self.off = 0.0

    def configure(self, *, device: str, flsce: SimpleNamespace) -> bool:
        self.asked.append(("workspace", flsce.max_tokens, flsce.hidden_size, flsce.local_vocab_size))
        return self.supported

    def apply(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        hidden, weight, labels, first, temperature, ignored, tiles, entropy, group = arguments
        assert (first, temperature, ignored, tiles, entropy, group) == (0, 1.0, -100, 1, True, "world")
        log_p = (hidden.float() @ weight.float().T).log_softmax(1)
        nll = -log_p.gather(1, labels[:, None]).squeeze(1)
        return nll * (1 + self.off), -(log_p.exp() * log_p).sum(1)

    def modules(self) -> dict[str, dict[str, Any]]:
        return {
            "liger_kernel.ops.configure": {
                "configure": self.configure,
                "FusedLinearCrossEntropyConfig": SimpleNamespace,
            },
            "liger_kernel.ops.cute.fused_linear_scaled_cross_entropy_tp": {
                "LigerFusedLinearScaledCrossEntropyNativeTPFunction": self
            },
            "liger_cute_kernels.nvshmem": {"pool_clear_all": lambda: self.asked.append("cleared")},
            "liger_cute_kernels.tvm_ffi": {
                "fused_linear_scaled_cross_entropy_forward_workspace_bytes": lambda *sizes: sum(sizes),
                "fused_linear_scaled_cross_entropy_backward_workspace_bytes": lambda *sizes: max(sizes),
            },
        }

    def processes(self) -> SimpleNamespace:
        return SimpleNamespace(
            is_initialized=lambda: "group" in self.asked,
            init_process_group=lambda *_, **__: self.asked.append("group"),
            group=SimpleNamespace(WORLD="world"),
        )


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Native:
    """Both packages installed, on a GPU that they know."""
    native = Native()
    for name, members in native.modules().items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(liger_native, "dist", native.processes())
    monkeypatch.setattr(liger_native.atexit, "register", lambda call: native.asked.append("ends with it"))
    monkeypatch.setattr(rivals, "find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: native.asked.append("waited"))
    return native


def found(device: str = "cuda") -> Head | Missing:
    (rival,) = rivals.find_rivals(device, (LIGER_NATIVE,))
    return rival


@pytest.mark.parametrize(
    ("installed", "capability", "device", "reason"),
    [
        ((), (9, 0), "cuda", "not installed: liger-kernel"),
        (("liger_kernel",), (9, 0), "cuda", "not installed: liger-cute-kernels"),
        (("liger_kernel", "liger_cute_kernels"), (9, 0), "cpu", "needs a CUDA device"),
        (("liger_kernel", "liger_cute_kernels"), (10, 0), "cuda", "needs compute capability 9.0"),
    ],
)
def test_where_it_cannot_run_it_is_missing_with_a_reason(
    installed: tuple[str, ...],
    capability: tuple[int, int],
    device: str,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rivals, "find_spec", lambda name: name if name in installed else None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    rival = found(device)
    assert isinstance(rival, Missing)
    assert rival.reason == reason


def test_each_shape_has_a_workspace_of_its_own(native: Native) -> None:
    head = found()
    assert isinstance(head, Head) and native.asked == []  # NVSHMEM starts with the first call
    for shape in (SHAPE, SHAPE, OTHER):
        head.forward(random_problem(shape, device="cpu"))
    first, second = ("workspace", 5, 8, 33), ("workspace", 9, 30, 21)
    assert native.asked == ["group", "ends with it", first, "waited", "cleared", second]
    # The backward pass pads the hidden size to eights.
    assert head.held_bytes(OTHER) == (9 + 21) + max(9, 32, 21, 1)
    assert native.asked[-1] == second


def test_a_device_that_it_leaves_out_is_said_at_each_call(native: Native) -> None:
    native.supported = False
    head = found()
    assert isinstance(head, Head)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no kernels for this device"):
            head.forward(random_problem(SHAPE, device="cpu"))
    assert native.asked.count("group") == 1 and "cleared" not in native.asked


def reported(head: Head) -> HeadResult:
    """The head as the benchmark reports it on a CPU with a clock."""
    settings = replace(BenchmarkSettings.of("cpu", 1), clock=lambda call: 1.0)
    return measure.measure(SHAPE, [head], settings, StepCounter(9, Console(file=StringIO()))).heads[0]


@pytest.mark.parametrize(("off", "status"), [(0.0, HeadStatus.RIGHT), (1e-4, HeadStatus.WRONG)])
def test_it_is_held_to_what_logits_in_float16_bring(
    native: Native, off: float, status: HeadStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "burst", lambda device: lambda: None)
    native.off = off
    head = found()
    assert isinstance(head, Head)
    report = reported(head)
    assert (report.status, report.speed is not None) == (status, status is HeadStatus.RIGHT)
    # Of 16,384 rows it adds up sixteen parts of the weight's gradient in 16 bits.
    assert head.rounding.of_sums("d_weight", replace(SHAPE, tokens=16384)) == pytest.approx(8.5**0.5)


def test_what_is_held_beside_torch_counts_as_memory(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    head = found()
    assert isinstance(head, Head)
    monkeypatch.setattr(measure, "peak_bytes", lambda call: 1000)
    steps = StepCounter(9, Console(file=StringIO()))
    measurement = measure._Measurement(SHAPE, [head], BenchmarkSettings.of("cpu", 1), steps)
    measurement._peak(head)
    held = (5 + 33) + 33
    assert measurement.outcomes[head.name].peak == Passes(forward=1000 + held, both=1000 + held)
