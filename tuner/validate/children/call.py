"""A call in processes of its own: what each is told before it, and why it may have no result."""

from dataclasses import dataclass
from pathlib import Path

from tuner.enumeration import Enum
from tuner.language import N_


class CallFailure(Enum):
    """Why a call has no result."""

    OUT_OF_MEMORY = N_("out of memory")
    TIMEOUT = N_("timeout")
    KILLED = N_("killed")
    ERROR = N_("error")


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A call without a result."""

    why: CallFailure
    message: str


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
