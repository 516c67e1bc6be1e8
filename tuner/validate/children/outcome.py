"""Why a call in processes of its own has no result."""

from dataclasses import dataclass
from enum import Enum


class Failure(Enum):
    """Why a call has no result."""

    OUT_OF_MEMORY = "out of memory"
    TIMEOUT = "timeout"
    KILLED = "killed"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A call without a result."""

    why: Failure
    message: str
