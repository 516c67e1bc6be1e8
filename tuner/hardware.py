"""The GPU and the machines it stands in."""

from dataclasses import dataclass

from tuner.evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class MeasuredGpu:
    """What was read off one real card; None where it was not measured."""

    date: str  # ISO 8601
    versions: tuple[tuple[str, str], ...]  # of driver, CUDA, PyTorch, ...
    usable_bytes: int | None = None  # total that CUDA hands out, less than the driver's total
    context_bytes: int | None = None  # taken by one process before its first tensor
    memory_bytes_per_s: float | None = None
    dense_bf16_flop_per_s: float | None = None
    link_bytes_per_s: float | None = None
    host_bytes_per_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One accelerator. Rates are dense peaks of the datasheet, in units per second."""

    name: str
    vendor: str
    architecture: str  # sm_90, gfx942, ascend-910b
    memory_bytes: int  # what the driver reports as total, not the marketing figure
    memory_bytes_per_s: float
    dense_bf16_flop_per_s: float
    dense_fp8_flop_per_s: float | None = None
    link_bytes_per_s: float  # to a neighbouring GPU, one direction
    host_bytes_per_s: float  # to host memory, one direction
    evidence: Evidence = Evidence.EXACT
    source: str = ""
    measured: MeasuredGpu | None = None


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The GPUs a job runs on."""

    gpu: Gpu
    gpus_per_node: int
    nodes: int
    network_bytes_per_s: float  # per GPU between nodes, one direction
    host_memory_bytes: int | None = None  # per node

    @property
    def gpus(self) -> int:
        """All GPUs of the job."""
        return self.gpus_per_node * self.nodes
