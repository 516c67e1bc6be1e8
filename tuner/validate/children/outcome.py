"""Why a call in processes of its own has no result."""

from dataclasses import dataclass

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
