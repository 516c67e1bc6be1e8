"""What the collectives worker reads between GPUs, handed to the parent."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Exchanged:
    """One kind of collective at one size."""

    whole_bytes: int  # over all GPUs
    seconds: float | None  # None on a CPU
    wrong_share: float  # of the values that are not what they must be


@dataclass(frozen=True, kw_only=True)
class CommunicatorBytes:
    """What NCCL took beside PyTorch's allocator."""

    first: int  # code, first kernel, first communicator
    exchange: int  # sending and receiving
    further: int  # a second communicator of the same GPUs


@dataclass(frozen=True, kw_only=True)
class CollectiveReadings:
    """Collectives between the GPUs, as the first of them saw it."""

    held: CommunicatorBytes | None  # None on a CPU
    latency_s: float | None  # of an all-gather of next to nothing
    gathers: dict[str, Exchanged]  # by unit
    scatters: dict[str, Exchanged]
    exchange: Exchanged | None  # None where heads cannot be divided
