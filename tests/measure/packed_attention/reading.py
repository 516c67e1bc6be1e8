"""What is read of layers over one packed row: seconds, bytes, kernels, and what sequences see."""

import time
from statistics import median
from typing import Any

import torch
from measure.packed_attention.layers import SEQUENCES, Row
from measure.warm_passes.kernels import kernels_of

_REPEATED, _BEFORE = 5, 2


class Passes:
    """Forward and backward passes of a model over one row, and what they took."""

    def __init__(self, row: Row, model: torch.nn.Module) -> None:
        self.row, self.model = row, model
        self.states, self.positions = row.states(), row.positions
        self.gradient = torch.randn_like(self.states)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The last layer's states."""
        with self.row.within_sequences():
            found: torch.Tensor = self.model(
                inputs_embeds=states, position_ids=self.positions, use_cache=False
            )[0]
        return found

    def both(self) -> dict[str, float]:
        """Seconds and bytes of one forward and one backward pass."""
        before = _allocated()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        begin = _now()
        found = self.forward(self.states)
        middle = _now()
        kept = _allocated() - before
        with self.row.within_sequences():
            found.backward(self.gradient)
        return {
            "forward_s": middle - begin,
            "backward_s": _now() - middle,
            "kept_bytes": kept,
            "peak_bytes": (torch.cuda.max_memory_allocated() - before) if torch.cuda.is_available() else 0,
        }

    def sees_others(self) -> bool:
        """Whether the last sequence's states change when the first sequence is another one."""
        length = self.row.tokens // SEQUENCES
        other = self.states.detach().clone()
        other[:, :length] = torch.randn_like(other[:, :length])
        with torch.no_grad():
            ends = [self.forward(states)[:, -length:] for states in (self.states, other)]
        return not torch.equal(*ends)


def read(row: Row, model: torch.nn.Module) -> dict[str, Any]:
    """Medians of several passes, and the kernels of one more."""
    passes = Passes(row, model)
    for _ in range(_BEFORE):
        passes.both()  # gradients are there from here on
    taken = [passes.both() for _ in range(_REPEATED)]
    profiled = kernels_of(lambda: passes.both())
    longest = profiled.pop("longest", [])
    attending = [one for one in longest if any(part in one[0].lower() for part in ("flash", "fmha"))]
    return {
        **{name: round(median(one[name] for one in taken), 6) for name in taken[0]},
        "repeated_s": [round(one["forward_s"] + one["backward_s"], 6) for one in taken],
        "sees_others": passes.sees_others(),
        "kernels": {**profiled, "attention": attending},
    }


def _allocated() -> int:
    return torch.cuda.memory_allocated() if torch.cuda.is_available() else 0


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
