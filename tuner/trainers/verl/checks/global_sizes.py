"""The micro-batch sizes that count the sequences of all GPUs, and what divides them."""

from collections.abc import Iterator

from msgspec import Struct

from tuner.trainers.verl.checks.settings import ACTOR, CRITIC, REFERENCE, ROLLOUT
from tuner.workload import Engine, Workload


class GlobalSize(Struct, frozen=True, kw_only=True):
    """A micro-batch size over all GPUs, the switch that makes it irrelevant, and the engine it is for."""

    key: str
    dynamic: str
    engine: Engine
    critic: bool = False

    @property
    def per_gpu(self) -> str:
        """The key of one GPU that stands beside it."""
        return f"{self.key}_per_gpu"


def global_sizes(workload: Workload) -> Iterator[GlobalSize]:
    """The sizes of the models that a job has."""
    actor = workload.actor.engine
    yield GlobalSize(key=f"{ACTOR}.ppo_micro_batch_size", dynamic=f"{ACTOR}.use_dynamic_bsz", engine=actor)
    rollout = f"{ROLLOUT}.log_prob_micro_batch_size"
    yield GlobalSize(key=rollout, dynamic=f"{ROLLOUT}.log_prob_use_dynamic_bsz", engine=actor)
    if workload.reference is not None and workload.reference.separate:
        key = f"{REFERENCE}.log_prob_micro_batch_size"
        dynamic = f"{REFERENCE}.log_prob_use_dynamic_bsz"
        yield GlobalSize(key=key, dynamic=dynamic, engine=workload.reference.engine)
    if workload.critic is not None:
        key, dynamic = f"{CRITIC}.ppo_micro_batch_size", f"{CRITIC}.use_dynamic_bsz"
        yield GlobalSize(key=key, dynamic=dynamic, engine=workload.critic.engine, critic=True)
