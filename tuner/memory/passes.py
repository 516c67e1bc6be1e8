"""One pass over one model: the micro-batch it works on, and the moments it goes through."""

from functools import lru_cache

from tuner.memory.fsdp.fsdp1 import passes as fsdp1_passes
from tuner.memory.fsdp.fsdp2 import passes as fsdp2_passes
from tuner.memory.ledger.terms import Moment
from tuner.memory.megatron import passes
from tuner.memory.micro_batch import PassInput
from tuner.workload import Backend

_PASSES = {
    Backend.FSDP: (fsdp1_passes.forward_moments, fsdp1_passes.training_moments),
    Backend.FSDP2: (fsdp2_passes.forward_moments, fsdp2_passes.training_moments),
    Backend.MEGATRON: (passes.forward_moments, passes.training_moments),
}


# Advice compares hundreds of workloads that differ in one pass.
@lru_cache(maxsize=4096)
def pass_moments(given: PassInput, *, training: bool) -> tuple[Moment, ...]:
    """What is allocated beyond the resident states, at each moment of a pass.

    Args:
        given: model, engine, head and the tokens of one micro-batch.
        training: True for forward, backward and optimizer step; False for forward only.
    """
    forward, update = _PASSES[given.engine.backend]
    return update(given) if training else forward(given)
