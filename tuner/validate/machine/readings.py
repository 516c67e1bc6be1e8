"""What the machine part's worker reads of one GPU, handed to the parent."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ProcessBytes:
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
    held: ProcessBytes
    product: Rate
    memory: Rate  # read and written
    to_device: Rate
    to_host: Rate


@dataclass(frozen=True, kw_only=True)
class OperatorSizes:
    """What operators are measured on: a layer of the job's model, and a few numbers of tokens."""

    hidden: int
    intermediate: int
    heads_width: int  # of all query heads together
    kv_width: int  # of all key heads together
    head_dim: int
    vocab: int
    rows: tuple[int, ...]  # tokens of a product
    lengths: tuple[int, ...]  # tokens of a sequence


@dataclass(frozen=True, kw_only=True)
class OperatorRate:
    """What one operator reached at one shape."""

    family: str  # products, attention, norm, gate, head, host
    tokens: int  # rows of a product, or length of a sequence
    backward: bool
    per_s: float  # floating-point operations; values of a norm or a gate; layers of the host
