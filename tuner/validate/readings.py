"""What the workers of machine and collectives read, handed to the parent."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Held:
    """Bytes that a process without communicators holds; each figure includes what the ones before it have."""

    first_tensor: int  # beside PyTorch's allocator, as the following three
    matrix_product: int
    backward: int
    attention: int
    workspaces: int  # of cuBLAS, which the allocator gives


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What a repeated operation reached."""

    per_s: float  # bytes or floating-point operations, by the median of its times
    slowest_per_s: float
    repetitions: int
    size: int  # bytes that one repetition moves, or rows of its square matrices


@dataclass(frozen=True, kw_only=True)
class MachineReadings:
    """One GPU, as one process saw it."""

    driver_total_bytes: int | None  # None where NVML does not say
    usable_bytes: int  # total that CUDA hands out
    held: Held
    product: Rate
    memory: Rate  # read and written
    to_device: Rate
    to_host: Rate


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
