"""What the GPU did in one pass: seconds and number of its kernels by kind, and how long it was busy."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

_KINDS = (
    ("attention", ("flash", "fmha")),
    ("communication", ("nccl",)),
    ("copies", ("memcpy", "memset")),
    ("compiled", ("triton_",)),
    ("experts", ("grouped",)),
    ("products", ("gemm", "nvjet", "cutlass", "xmma", "splitk", "cublas")),
    ("optimizer", ("multi_tensor", "multitensor", "foreach")),
)
_NAMED = 40


def kernels_of(work: Callable[[], object]) -> dict[str, Any]:
    """Kernels of one run of ``work``; empty without a GPU."""
    if not torch.cuda.is_available():
        work()
        return {}
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        work()
        torch.cuda.synchronize()
    spans = [
        (event.name(), event.start_ns() / 1e3, (event.start_ns() + event.duration_ns()) / 1e3)
        for event in profiled.profiler.kineto_results.events()
        if event.device_type() == DeviceType.CUDA
    ]
    seconds: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    by_name: Counter[str] = Counter()
    number: Counter[str] = Counter()
    for name, start, end in spans:
        kind = _kind(name)
        seconds[kind] += end - start
        counts[kind] += 1
        by_name[name] += end - start
        number[name] += 1
    return {
        "busy_s": round(_busy(spans) / 1e6, 6),
        "by_kind_s": {kind: round(total / 1e6, 6) for kind, total in seconds.most_common()},
        "counts": dict(counts),
        "longest": [
            [name[:120], number[name], round(total / 1e6, 6)] for name, total in by_name.most_common(_NAMED)
        ],
    }


def _kind(name: str) -> str:
    lowered = name.lower()
    return next((kind for kind, parts in _KINDS if any(part in lowered for part in parts)), "elementwise")


def _busy(spans: Iterable[tuple[str, float, float]]) -> float:
    """Length of the union of all spans."""
    total, reached = 0.0, float("-inf")
    for _, start, end in sorted(spans, key=lambda span: span[1]):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
