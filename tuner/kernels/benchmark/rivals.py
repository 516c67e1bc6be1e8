"""The kernels of other packages, where they are installed.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from tuner.kernels.benchmark.heads import Head, Rounding
from tuner.kernels.benchmark.liger_native import TILES_PER_REDUCE, NativeRuntime
from tuner.kernels.benchmark.machine import package_version
from tuner.kernels.benchmark.problem import Problem, ProblemShape
from tuner.kernels.benchmark.report import HeadSource, Task

VERL_TRITON = "verl Triton"
LIGER_NATIVE = "Liger native"
IGNORED = -100
_VERL_SLICE = 9504  # vocabulary entries, verl/utils/kernel/kernels.py
_LIGER_WAVE = 1024  # rows, liger_kernel/ops/cutedsl/ops/fused_scaled_cross_entropy_sm90.py
# Rows whose logits' gradients its workspace holds: what one more vocabulary entry adds to it, in 16 bits.
_LIGER_NATIVE_WAVE = 1024
_CCE_TILE = 128  # rows and vocabulary entries, cut_cross_entropy/tl_autotune.py


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A rival that cannot be measured here, and why."""

    name: str
    task: Task
    reason: str


class RivalMissingError(Exception):
    """Why a rival cannot be measured here."""


def _installed(module: str, package: str) -> None:
    if find_spec(module) is None:
        raise RivalMissingError(f"not installed: {package}")


def _on_cuda(device: str) -> None:
    if not device.startswith("cuda"):
        raise RivalMissingError("needs a CUDA device")


def import_below(package: str, module: str) -> ModuleType:
    """Import a module without the packages above it, whose other dependencies may be missing.

    verl's own ``__init__`` imports ray and tensordict, which its kernels do not use. The packages above the
    module are stood in for by empty ones with the same search path, which stay in ``sys.modules``.

    Raises:
        CannotRunError: there is no such package.
    """
    _installed(package, package)
    names = module.split(".")[:-1]
    for depth in range(1, len(names)):
        above = ".".join(names[:depth])
        if above not in sys.modules:
            sys.modules[above] = _stand_in(above)
    return import_module(module)


def _stand_in(package: str) -> ModuleType:
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise RivalMissingError(f"no package {package} in what is installed")
    module = ModuleType(package)
    module.__spec__, module.__path__ = spec, list(spec.submodule_search_locations)
    return module


def _on_hopper(device: str) -> None:
    _on_cuda(device)
    if torch.cuda.get_device_capability(device) != (9, 0):
        raise RivalMissingError("needs compute capability 9.0")


def _ceil_div(value: int, by: int) -> int:
    return -(-value // by)


def _verl_triton(device: str) -> Head:
    _installed("verl", "verl")
    _on_cuda(device)
    kernel: Any = import_below("verl", "verl.utils.kernel.linear_cross_entropy").linear_cross_entropy

    def run(problem: Problem) -> tuple[Tensor, ...]:
        outputs: tuple[Tensor, ...] = kernel(*problem.inputs, problem.labels_T, 1.0, "none")
        return outputs

    return Head(
        name=VERL_TRITON,
        family=HeadSource.RIVAL,
        task=Task.EACH,
        run=run,
        products=4,
        rounding=Rounding(sums={"d_hidden": lambda shape: _ceil_div(shape.vocabulary, _VERL_SLICE)}),
        version=package_version("verl"),
    )


def _liger_sm90(device: str) -> Head:
    """Liger's kernel for Hopper as verl calls it with ``impl_backend: liger``."""
    _installed("liger_kernel", "liger-kernel")
    _installed("cutlass", "nvidia-cutlass-dsl")
    _on_hopper(device)
    function: Any = import_module("liger_kernel.ops").LigerFusedLinearScaledCrossEntropyFunction

    def run(problem: Problem) -> tuple[Tensor, ...]:
        nll_T, entropy_T = function.apply(*problem.inputs, problem.labels_T, 1.0, IGNORED, 1, True)
        return -nll_T, entropy_T

    return Head(
        name="Liger SM90",
        family=HeadSource.RIVAL,
        task=Task.EACH,
        run=run,
        products=4,
        # The logits are kept in float16 between two steps of its epilogue.
        rounding=Rounding(
            logits=True,
            logits_dtype=torch.float16,
            outputs=("entropy",),
            sums={"d_weight": lambda shape: _ceil_div(shape.tokens, _LIGER_WAVE)},
        ),
        version=f"{package_version('liger-kernel')} with CuTe DSL {package_version('nvidia-cutlass-dsl')}",
    )


def _liger_native(device: str) -> Head:
    """Liger's compiled kernels for a vocabulary that GPUs share out, with all of it on this one."""
    _installed("liger_kernel", "liger-kernel")
    _installed("liger_cute_kernels", "liger-cute-kernels")
    _on_hopper(device)
    module = import_module("liger_kernel.ops.cute.fused_linear_scaled_cross_entropy_tp")
    function: Any = module.LigerFusedLinearScaledCrossEntropyNativeTPFunction
    runtime = NativeRuntime(device)

    def run(problem: Problem) -> tuple[Tensor, ...]:
        group = runtime.group(problem.shape)
        nll_T, entropy_T = function.apply(
            *problem.inputs, problem.labels_T, 0, 1.0, IGNORED, TILES_PER_REDUCE, True, group
        )
        return -nll_T, entropy_T

    return Head(
        name=LIGER_NATIVE,
        family=HeadSource.RIVAL,
        task=Task.EACH,
        run=run,
        products=4,
        # Its epilogue packs the sums into float16 (F2FP.F16.F32.PACK_AB) before it takes them up again.
        rounding=Rounding(
            logits=True,
            logits_dtype=torch.float16,
            sums={"d_weight": lambda shape: _ceil_div(shape.tokens, _LIGER_NATIVE_WAVE)},
        ),
        version=package_version("liger-cute-kernels"),
        held_bytes=runtime.held_bytes,
    )


def _liger_chunks(shape: ProblemShape) -> int:
    """Chunks of rows whose logits are about as many as hidden states.

    Source: ``liger_kernel/ops/fused_linear_cross_entropy.py``.
    """
    rows = _ceil_div(shape.tokens, _ceil_div(shape.vocabulary, shape.hidden))
    return _ceil_div(shape.tokens, min(shape.tokens, 1 << (rows - 1).bit_length()))


def _liger_triton(device: str) -> Head:
    _installed("liger_kernel", "liger-kernel")
    _on_cuda(device)
    module = import_module("liger_kernel.ops.fused_linear_cross_entropy")
    function: Any = module.LigerFusedLinearCrossEntropyFunction

    def run(problem: Problem) -> tuple[Tensor, ...]:
        return (function.apply(*problem.inputs, problem.labels_T)[0],)

    return Head(
        name="Liger Triton",
        family=HeadSource.RIVAL,
        task=Task.MEAN,
        run=run,
        products=3,
        rounding=Rounding(logits=True, sums={"d_weight": _liger_chunks}),
        version=package_version("liger-kernel"),
    )


def _cut_cross_entropy(device: str) -> Head:
    """Cut Cross Entropy without its filter, which leaves out small gradients: of random logits, all."""
    _installed("cut_cross_entropy", "cut-cross-entropy")
    _on_cuda(device)
    function: Any = import_module("cut_cross_entropy").linear_cross_entropy

    def run(problem: Problem) -> tuple[Tensor, ...]:
        losses: Tensor = function(*problem.inputs, problem.labels_T, reduction="none", filter_eps=None)
        return (-losses,)

    return Head(
        name="Cut Cross Entropy",
        family=HeadSource.RIVAL,
        task=Task.LOG_PROBS,
        run=run,
        products=4,
        rounding=Rounding(
            sums={
                "d_hidden": lambda shape: _ceil_div(shape.vocabulary, _CCE_TILE),
                "d_weight": lambda shape: _ceil_div(shape.tokens, _CCE_TILE),
            }
        ),
        version=package_version("cut-cross-entropy"),
    )


_RIVALS: dict[str, tuple[Task, Callable[[str], Head]]] = {
    VERL_TRITON: (Task.EACH, _verl_triton),
    "Liger SM90": (Task.EACH, _liger_sm90),
    LIGER_NATIVE: (Task.EACH, _liger_native),
    "Liger Triton": (Task.MEAN, _liger_triton),
    "Cut Cross Entropy": (Task.LOG_PROBS, _cut_cross_entropy),
}
RIVAL_NAMES = tuple(_RIVALS)


def find_rivals(device: str, names: tuple[str, ...] = RIVAL_NAMES) -> list[Head | Missing]:
    """Load the rival heads that can be measured on this machine, and say why the others cannot."""
    rivals: list[Head | Missing] = []
    for name in names:
        task, load = _RIVALS[name]
        try:
            rivals.append(load(device))
        except RivalMissingError as reason:
            rivals.append(Missing(name=name, task=task, reason=str(reason)))
        except Exception as error:  # its own imports may fail in any way
            rivals.append(Missing(name=name, task=task, reason=f"import failed: {error!r}"))
    return rivals
