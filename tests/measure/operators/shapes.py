"""The shapes that are measured, and how often an operation runs until its time is believed."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Sizes of one decoder layer with grouped-query attention and a gated MLP."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    query_key_norms: bool = False


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """What one run looks at."""

    device: str
    engines: tuple[str, ...]  # that wrap a layer
    decoders: tuple[Decoder, ...]
    rows: tuple[int, ...]  # tokens of a product
    lengths: tuple[int, ...]  # tokens of a sequence
    head_dims: tuple[int, ...]
    attended_tokens: int  # of all sequences together
    copied_values: int
    optimized_values: int
    seconds: float  # of each figure
    peak_flop_per_s: float = 1.0  # the card's, in bfloat16, as its data sheet has it

    @property
    def launched(self) -> tuple[Decoder, ...]:
        """The decoders whose launching is timed: the narrow ones, for which no GPU needs longer."""
        return self.decoders[:3]


FULL = Shapes(
    device="cuda",
    engines=("plain", "fsdp", "fsdp2"),
    decoders=(
        Decoder(hidden=896, intermediate=4864, heads=14, kv_heads=2, head_dim=64),
        Decoder(hidden=1536, intermediate=8960, heads=12, kv_heads=2, head_dim=128),
        Decoder(hidden=2560, intermediate=9728, heads=32, kv_heads=8, head_dim=128, query_key_norms=True),
        Decoder(hidden=3584, intermediate=18944, heads=28, kv_heads=4, head_dim=128),
        Decoder(hidden=5120, intermediate=27648, heads=40, kv_heads=8, head_dim=128),
    ),
    rows=(128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768),
    lengths=(256, 512, 1024, 2048, 4096, 8192, 16384, 32768),
    head_dims=(64, 128, 256),
    attended_tokens=32768,
    copied_values=1 << 29,
    optimized_values=990_000_000,
    seconds=0.15,
)
TINY = Shapes(
    device="cpu",
    engines=("plain", "fsdp2"),  # PyTorch's first FSDP refuses a CPU
    decoders=(
        Decoder(hidden=32, intermediate=64, heads=4, kv_heads=2, head_dim=8),
        Decoder(hidden=64, intermediate=96, heads=4, kv_heads=2, head_dim=16, query_key_norms=True),
    ),
    rows=(8, 16),
    lengths=(8, 16),
    head_dims=(8, 16),
    attended_tokens=16,
    copied_values=1 << 10,
    optimized_values=1 << 10,
    seconds=0.001,
)


def synchronize() -> None:
    """Waits for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(operation: Callable[[], object], *, least: float) -> float:
    """Mean seconds of an operation that runs again and again for ``least`` seconds, after two runs unseen."""
    for _ in range(2):
        operation()
    synchronize()
    start = time.perf_counter()
    operation()
    synchronize()
    times = max(3, int(least / max(time.perf_counter() - start, 1e-5)))
    start = time.perf_counter()
    for _ in range(times):
        operation()
    synchronize()
    return (time.perf_counter() - start) / times
