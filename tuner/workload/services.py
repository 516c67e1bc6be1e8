"""Models beside the policy that only judge what it wrote: a reward model, or a teacher."""

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.model_shape import ModelShape
from tuner.workload.batch import Pass
from tuner.workload.engine import Engine
from tuner.workload.rollout import Rollout


class ServiceRole(Enum):
    """What a service is for."""

    REWARD = "reward"  # scores whole responses
    TEACHER = "teacher"  # gives log-probabilities to distil from


class Service(Struct, frozen=True, kw_only=True, cache_hash=True):
    """A frozen model that judges responses, on an inference engine or on an engine of the trainer.

    One of ``server`` and ``engine`` says which; neither, where it is on GPUs of its own that nothing is asked
    about.
    """

    role: ServiceRole
    name: str  # what the configuration calls its model
    model: ModelShape | None  # None: the architecture is not known, and nothing of it is counted
    gpus: int
    shares_gpus: bool  # runs on the trainer's GPUs
    server: Rollout | None = None  # the inference engine that serves it
    starts_first: bool = False  # its inference engine starts before the trainer has loaded anything
    engine: Engine | None = None  # the trainer's engine that runs it
    scoring: Pass | None = None  # how that engine cuts its forward pass

    @property
    def left_out(self) -> bool:
        """Whether it takes memory of the trainer's GPUs that is not counted."""
        return self.shares_gpus and self.model is None
