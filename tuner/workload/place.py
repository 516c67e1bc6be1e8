"""The place in a job at which it stopped, as the stack of calls tells it."""

from typing import Annotated

from msgspec import Meta, Struct

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

    phases: Annotated[
        tuple[Phase, ...], Meta(description="one of which it was; none where no call says")
    ] = ()
    before_steps: Annotated[bool, Meta(description="the job was still starting")] = False
    phase_call: Call | None = None
    work: FailedWork | None = None
    work_call: Call | None = None
