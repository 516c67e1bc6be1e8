"""Where a search begins as well: the job with its models less divided, and what advice makes of that.

From a layout that divides a model in many ways no single change leads to one that divides it less: on the
way there a phase lacks memory for which something else has to change first, as the advice does.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tuner.advise import block_of
from tuner.advise.reading import Reading
from tuner.model_shape import ModelShape
from tuner.plan.space import Choice, Space, nearest
from tuner.workload import Backend, Engine, Workload


def whole_starts(reading: Reading, space: Space, headroom: float) -> Iterator[Choice]:
    """Where to begin: the choices next to that job and to what advice makes of it.

    Args:
        reading: the job as it is.
        space: of its settings.
        headroom: share of the card that advice leaves free.
    """
    for workload in dict.fromkeys(_less_divided(reading.workload)):
        if workload == reading.workload:
            continue
        try:
            overrides = reading.write(workload).overrides
            whole = reading.adding(overrides) if overrides else reading
        except ValueError:
            continue
        if whole.workload != reading.workload:
            yield nearest(space, whole.workload)
            block = block_of(whole, headroom=headroom)
            if block is not None:
                yield nearest(space, block.workload)


def _less_divided(workload: Workload) -> Iterator[Workload]:
    """The job with whole models, but for experts: divided as they are, and over the GPUs of a node."""
    node = workload.cluster.gpus_per_node
    for experts in (None, node):
        changed = workload.with_actor(engine=_uncut(workload.actor.engine, workload.model, experts))
        if workload.reference is not None:
            engine = _uncut(workload.reference.engine, workload.model, experts)
            changed = changed.with_reference(engine=engine)
        if workload.critic is not None:
            engine = _uncut(workload.critic.engine, workload.critic.model, experts)
            changed = changed.with_critic(engine=engine)
        yield changed


def _uncut(engine: Engine, model: ModelShape, experts: int | None) -> Engine:
    """An engine that cuts neither layers nor sequences."""
    now = engine.parallel
    size = now.expert
    divided = engine.backend is Backend.MEGATRON and model.moe is not None
    if experts is not None and divided and model.moe is not None and model.moe.experts % experts == 0:
        size = experts
    ones = dict.fromkeys(("ulysses", "tensor", "pipeline", "context", "expert_tensor", "virtual_pipeline"), 1)
    return replace(engine, parallel=replace(now, **ones, expert=size))
