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
class Experts:
    """Sizes of one layer's routed experts with gated MLPs."""

    hidden: int
    intermediate: int
    count: int


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
    experts: tuple[Experts, ...]
    expert_rows: tuple[int, ...]  # tokens of each expert
    elementwise_values: tuple[int, ...]
    elementwise_width: int
    launched_experts: Experts
    copied_values: int
    optimized_values: int
    seconds: float  # of each figure
    host_seconds: float  # of each figure of the host, which other work on the machine disturbs
    peak_flop_per_s: float = 1.0  # the card's, in bfloat16, as its data sheet has it

    @property
    def launched(self) -> tuple[Decoder, ...]:
        """The decoders whose launching is timed: narrow ones, for which no GPU needs longer.

        One without norms of queries and keys, and one with them.
        """
        return (self.decoders[0], next(one for one in self.decoders if one.query_key_norms))


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
    experts=(
        Experts(hidden=2048, intermediate=768, count=128),
        Experts(hidden=2048, intermediate=1408, count=64),
        Experts(hidden=4096, intermediate=14336, count=8),
    ),
    expert_rows=(16, 64, 256, 1024, 4096),
    elementwise_values=tuple(1 << power for power in (20, 21, 22, 23, 24, 25, 26, 27, 28)),
    elementwise_width=2048,
    launched_experts=Experts(hidden=512, intermediate=128, count=64),
    copied_values=1 << 29,
    optimized_values=990_000_000,
    seconds=0.15,
    host_seconds=0.8,
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
    experts=(Experts(hidden=32, intermediate=16, count=4), Experts(hidden=32, intermediate=48, count=2)),
    expert_rows=(8, 16),
    elementwise_values=(1 << 10, 1 << 11),
    elementwise_width=64,
    launched_experts=Experts(hidden=32, intermediate=16, count=4),
    copied_values=1 << 10,
    optimized_values=1 << 10,
    seconds=0.001,
    host_seconds=0.001,
)


def synchronize() -> None:
    """Waits for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def without_host(operation: Callable[[], object]) -> Callable[[], object]:
    """The same kernels replayed from a graph, so that no time between them is the host's."""
    if not torch.cuda.is_available():
        return operation
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            operation()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        operation()
    return graph.replay


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
