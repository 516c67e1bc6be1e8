"""The place in a job at which it stopped, as the stack of calls tells it."""

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.out_of_memory.stack import Call
from tuner.workload.step import Phase


class FailedWork(Enum):
    """What a process computes or moves at an instant."""

    LOGITS = "logits"
    ENTROPY = "entropy"
    ATTENTION = "attention"
    LAYER = "layer"
    BACKWARD = "backward"
    GATHERING = "gathering"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    LOADING = "loading"
    BUILDING = "building"
    TRIAL_RUN = "trial_run"
    GRAPHS = "graphs"
    CACHE = "cache"
    ENGINE_WEIGHTS = "engine_weights"
    SYNC = "sync"
    SAVING = "saving"


class FailurePlace(Struct, frozen=True, kw_only=True):
    """Where a job was in its step, and with what, each with the call that says so."""

    phases: tuple[Phase, ...] = ()  # it was in one of them; none where no call says
    before_steps: bool = False  # the job was still starting
    phase_call: Call | None = None
    work: FailedWork | None = None
    work_call: Call | None = None
