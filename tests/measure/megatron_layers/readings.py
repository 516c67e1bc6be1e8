"""What is read of layers that run: seconds of the host by direction, and bytes that autograd keeps."""

import time
from collections.abc import Callable
from statistics import median

import torch

Run = Callable[[], torch.Tensor]

_ROUNDS, _WARM = 5, 5


def directions(run: Run, repeated: int, *, least_s: float) -> dict[str, float]:
    """Seconds of the thread for one of as many layers: without gradients, with them, and there and back.

    Args:
        run: the layers' forward pass.
        repeated: how many layers it has.
        least_s: for how long each of the three runs, at least.
    """

    def without_gradients() -> None:
        with torch.no_grad():
            run()

    calls = {
        "forward_s": without_gradients,
        "kept_forward_s": run,
        "kept_s": lambda: run().sum().backward(),  # type: ignore[no-untyped-call]
    }
    return {name: round(_seconds(call, least_s) / repeated, 7) for name, call in calls.items()}


def _seconds(call: Callable[[], object], least_s: float) -> float:
    """Of one call: the median of five means, in seconds of this thread, after some that do not count."""
    for _ in range(_WARM):
        call()
    means = []
    for _ in range(_ROUNDS):
        begin, calls = time.thread_time(), 0
        while not calls or calls % 4 or time.thread_time() - begin < least_s / _ROUNDS:
            call()
            calls += 1
        means.append((time.thread_time() - begin) / calls)
    return median(means)


def kept_bytes(run: Run, *, without: frozenset[int] = frozenset()) -> int:
    """Bytes that autograd keeps of a forward pass, each storage once.

    Args:
        run: the pass; it runs once before, for what only a first one makes.
        without: addresses of storages that do not count, such as those of parameters.
    """
    run()
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in without:
            storages[storage.data_ptr()] = storage.nbytes()
        kept.append(tensor)  # lest another one gets its address
        return tensor

    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = run()
    del output
    return sum(storages.values())
