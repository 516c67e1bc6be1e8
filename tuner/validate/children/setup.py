"""What a child process is told before its call: the device, its limits, and its place among others."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What every child is told before its call."""

    device: str  # cuda or cpu
    memory_limit_bytes: int | None = None  # of one GPU
    uuids: tuple[str, ...] = ()  # NVML's names of the GPUs, by rank
    log: Path | None = None  # where output and tracebacks go; nowhere where it is None


@dataclass(frozen=True, kw_only=True)
class GroupRank:
    """A child's place in its group."""

    rank: int
    world: int
    port: int
    timeout_s: float

    def environment(self) -> dict[str, str]:
        """The variables that ``torch.distributed`` reads."""
        return {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.rank),
            "WORLD_SIZE": str(self.world),
            "LOCAL_WORLD_SIZE": str(self.world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port),
        }
