"""The GPU and the machines it stands in."""

from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from tuner.evidence import Evidence


class MeasuredGpu(Struct, frozen=True, kw_only=True, dict=True):
    """What was read off one real card; None where it was not measured. Rates are those that were reached."""

    date: str  # ISO 8601
    versions: tuple[tuple[str, str], ...]  # of driver, CUDA, PyTorch, ...
    usable_bytes: int | None = None  # total that CUDA hands out, less than the driver's total
    context_bytes: int | None = None  # of a process that has trained, beside its allocator and NCCL
    memory_bytes_per_s: float | None = None  # read and written by a copy on the card
    dense_bf16_flop_per_s: float | None = None  # of large matrix products, for a second on end
    link_bytes_per_s: float | None = None  # of gathering a decoder layer, its start taken off
    host_bytes_per_s: float | None = None  # from and to page-locked memory, the slower way
    # Measured over modelled rate of a family of operators, where the model goes by the rates above.
    products_factor: float | None = None  # of a layer
    attention_factor: float | None = None
    elementwise_factor: float | None = None
    head_factor: float | None = None  # the product with the output projection
    host_factor: float | None = None  # launching kernels
    engine_factor: float | None = None  # preparing the steps of a rollout engine
    engine_sequence_factor: float | None = None  # for each sequence of a step; as the step's where None

    @cached_property
    def has_factors(self) -> bool:
        """Whether any family of operators was measured."""
        factors = (self.products_factor, self.attention_factor, self.elementwise_factor, self.head_factor)
        return any(
            factor is not None
            for factor in (*factors, self.host_factor, self.engine_factor, self.engine_sequence_factor)
        )


class Gpu(Struct, frozen=True, kw_only=True, cache_hash=True):
    """One accelerator. Rates are dense peaks of the datasheet, in units per second."""

    name: str
    vendor: str
    architecture: str  # sm_90, gfx942, ascend-910b
    memory_bytes: int  # what the driver reports as total, not the marketing figure
    memory_bytes_per_s: float
    dense_bf16_flop_per_s: float  # in float16 where it has no bfloat16
    dense_fp8_flop_per_s: float | None = None
    link_bytes_per_s: float  # to a neighbouring GPU, one direction
    host_bytes_per_s: float  # to host memory, one direction
    network_bytes_per_s: float | None = None  # its share of the network between nodes, one direction
    storage_bytes_per_s: float | None = None  # what its node writes to where checkpoints lie
    bfloat16: bool = True  # whether it computes in it
    per_node: int | None = None  # the most that one node has; None where that is not known
    evidence: Evidence = Evidence.EXACT
    source: str = ""
    measured: MeasuredGpu | None = None

    @property
    def capacity_bytes(self) -> int:
        """Memory that processes can have: what CUDA hands out where that was measured, else the total."""
        usable = None if self.measured is None else self.measured.usable_bytes
        return self.memory_bytes if usable is None else usable

    @property
    def is_ascend(self) -> bool:
        """Whether the card is an Ascend, where nothing holds that was written or recorded for CUDA."""
        return self.vendor == "huawei"

    def limited_to(self, size: int) -> "Gpu":
        """A copy of the card with no more memory than ``size`` bytes."""
        measured = None if self.measured is None else replace(self.measured, usable_bytes=None)
        return replace(self, memory_bytes=min(self.capacity_bytes, size), measured=measured)

    def with_memory(self, size: int) -> "Gpu":
        """A copy of the card with ``size`` bytes of memory, all of which processes can have."""
        measured = None if self.measured is None else replace(self.measured, usable_bytes=None)
        return replace(self, memory_bytes=size, measured=measured)


class Cluster(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The GPUs a job runs on."""

    gpu: Gpu
    gpus_per_node: int
    nodes: int
    network_bytes_per_s: float  # per GPU between nodes, one direction
    network_assumed: bool = False  # nobody said how fast the network is
    storage_bytes_per_s: float | None = None  # what a node writes to checkpoints; None: nobody said
    host_memory_bytes: int | None = None  # per node

    @property
    def gpus(self) -> int:
        """All GPUs of the job."""
        return self.gpus_per_node * self.nodes
