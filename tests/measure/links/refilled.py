"""A training pass that finds PyTorch's cache empty, beside the same pass that finds its blocks again."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

_SIZES = ((1_536, 4_096), (4_096, 16_384))  # of a hidden state, and tokens: small kernels and large ones
_INNER = 4
_KEPT = 1 + 2 * _INNER  # values that a layer keeps of each of a hidden state's
_ROUNDS = 3


class Pass:
    """Forward and backward of layers that share their weights; what each keeps is of its own."""

    def __init__(self, hidden: int, tokens: int, layers: int, device: str) -> None:
        def made(rows: int, columns: int) -> torch.Tensor:
            return torch.randn((rows, columns), dtype=torch.bfloat16, device=device)

        self._up = made(hidden, _INNER * hidden).div_(hidden).requires_grad_()
        self._down = made(_INNER * hidden, hidden).div_(hidden).requires_grad_()
        self._tokens = made(tokens, hidden)
        self._layers = layers

    def __call__(self) -> None:
        """Once, its gradients dropped."""
        states = self._tokens
        for _ in range(self._layers):
            states = states + functional.silu(states @ self._up) @ self._down
        torch.autograd.backward(states.sum())
        self._up.grad = self._down.grad = None


def refilled(
    device: str, room: int, rest_s: float, slowest: Callable[[Callable[[], object]], float]
) -> dict[str, Any]:
    """Seconds of passes with and without blocks to find, in whole blocks and in pages.

    Args:
        device: cpu for a dry run.
        room: MiB that activations fill.
        rest_s: seconds in which memory that was given back rests.
        slowest: seconds of some work, of the slowest of all processes.
    """
    readings: dict[str, Any] = {}
    for name, setting in (("segments", "False"), ("mapped_pages", "True")):
        if device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.memory._set_allocator_settings(f"expandable_segments:{setting}")
        for hidden, tokens in _SIZES if device == "cuda" else ((8, 4),):
            layers = max(1, (room << 20) // (2 * _KEPT * hidden * tokens)) if device == "cuda" else 2
            work = Pass(hidden, tokens, layers, device)
            work()
            warm = [slowest(work) for _ in range(_ROUNDS)]
            held = torch.cuda.memory_reserved() if device == "cuda" else 0
            cold = []
            for _ in range(_ROUNDS):
                if device == "cuda":
                    torch.cuda.empty_cache()
                    time.sleep(rest_s)
                cold.append(slowest(work))
            sizes = {"hidden": hidden, "tokens": tokens, "layers": layers, "reserved_bytes": held}
            readings[f"{name} {hidden}"] = sizes | {"warm_s": warm, "emptied_s": cold}
            del work
    return readings
