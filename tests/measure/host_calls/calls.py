"""Calls of the host that a weight sync and a layer make, and how long each takes."""

import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from measure.readings import device

_ROUNDS, _CALLS, _BEFORE = 5, 300, 30
_BLOCK = 8192  # numbers of two bytes that a collective has: 16 KiB


def call_seconds(call: Callable[[], object], *, calls: int = _CALLS) -> float:
    """Seconds of one call: the median of five means, after some calls that do not count."""
    for _ in range(min(_BEFORE, calls)):
        call()
    means = []
    for _ in range(_ROUNDS):
        _wait()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        means.append((time.perf_counter() - begin) / calls)
    return median(means)


def read_calls(calls: str) -> dict[str, float]:
    """All calls in the group of this process, which has one rank: seconds by name, and objects.

    Args:
        calls: how many of each a mean is over, as text, as a process of its own gets its argument.
    """
    number = int(calls)
    seconds = {f"{name}_s": call_seconds(call, calls=number) for name, call in _calls().items()}
    return {**seconds, **collection()}


def _calls() -> dict[str, Callable[[], object]]:
    """What is called, by the name that the record has."""
    block = torch.zeros(_BLOCK, dtype=torch.bfloat16, device=device())
    gathered = torch.empty_like(block)
    listed: list[Any] = [None]
    one = torch.ones(1, device=device())
    row = torch.ones(1, 64, device=device(), dtype=torch.bfloat16)
    weight = torch.ones(64, 64, device=device(), dtype=torch.bfloat16)
    spec, name = (block.shape, block.dtype), ["model.layers.0.self_attn.q_proj.weight"]

    def with_output() -> None:
        output = torch.empty_like(block)
        dist.all_gather_into_tensor(output, block, async_op=True).wait()

    return {
        "gather_spec": lambda: dist.all_gather_object(listed, spec),
        "gather_name": lambda: dist.all_gather_object(listed, name[0]),
        "broadcast_name": lambda: dist.broadcast_object_list(name, src=0),
        "all_gather_call": lambda: dist.all_gather_into_tensor(gathered, block),
        "all_gather_with_output": with_output,
        "reduce_scatter_call": lambda: dist.reduce_scatter_tensor(gathered, block),
        "read_number": lambda: one.item(),
        "add": lambda: torch.add(one, one),
        "linear": lambda: torch.nn.functional.linear(row, weight),
    }


def collection() -> dict[str, float]:
    """A collection of garbage when nothing is left to collect, and the objects that it goes through."""
    import transformers.models.qwen2.modeling_qwen2  # what a worker has imported  # noqa: F401

    gc.collect()
    begin = time.perf_counter()
    gc.collect()
    return {"collection_s": time.perf_counter() - begin, "objects": len(gc.get_objects())}


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
