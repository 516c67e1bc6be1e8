"""Memory that no tensor of the job accounts for.

These are the only constants of the memory model that are not derived from a configuration. Each
has a source and the interval it was seen in; the estimate uses the middle figure.
"""

from dataclasses import dataclass

from tuner.units import MIB


@dataclass(frozen=True, kw_only=True)
class Constant:
    """A named size with the interval it lies in, in bytes."""

    low: int
    typical: int
    high: int
    source: str


CONTEXT = Constant(
    low=300 * MIB,
    typical=767 * MIB,
    high=900 * MIB,
    source="one process outside PyTorch's allocator after training steps: H200, torch 2.11, 2026-11-20",
)
COMMUNICATION = Constant(
    low=100 * MIB,
    typical=600 * MIB,
    high=1536 * MIB,
    source="NCCL channels and buffers of one process (NCCL_BUFFSIZE 4 MiB per channel and peer)",
)
CUDA_GRAPHS = Constant(
    low=256 * MIB,
    typical=1024 * MIB,
    high=3072 * MIB,
    source="graph pools that vLLM reports after capture for its default list of batch sizes",
)
CUBLAS_WORKSPACES = Constant(
    low=8 * MIB,
    typical=64 * MIB,
    high=96 * MIB,
    source="torch allocates 32 MiB per cuBLAS handle and stream on Hopper (8 MiB before), two in training",
)


def process_overhead_bytes(gpus: int) -> int:
    """Context of one process, and its communicators when there is someone to talk to."""
    return CONTEXT.typical + (COMMUNICATION.typical if gpus > 1 else 0)
