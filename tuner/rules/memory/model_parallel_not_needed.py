"""Do not cut a model into more parts than it needs

What it checks
--------------

Under Megatron, the actor is cut into slices of tensor, pipeline or context parallelism, and fewer of them are affordable and faster.
The reference and a critic that are cut alike are changed with it.

Why it matters
--------------

Each slice of a layer waits for two all-reduces per layer and pass, and nothing hides them; stages wait for each other at both ends of a mini-batch.
The GPUs that this frees work on sequences of their own, and exchange gradients once per optimizer step.
A model of half a billion parameters on four GPUs does little else than exchange.

When it does not apply
----------------------

The parts of the model, or the logits of a whole vocabulary, do not fit on fewer GPUs.
The mini-batch has fewer sequences than there would be ranks.
The model has experts, whose parts are laid over the same GPUs, or a layout of stages of its own.
A run that goes on from a checkpoint reads what was written with the sizes before: try that first.

Sources
-------

Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (arXiv:2104.04473), sections 2.2, 2.3 and 3.
verl 0.9.1, ``trainer/config/engine/megatron.yaml``; ``utils/megatron_utils.py``.
"""

from collections.abc import Iterator
from itertools import product

from msgspec.structs import replace

from tuner.batching import divisors
from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.passes import with_dividing_sizes
from tuner.workload import Backend, Engine, Parallelism, Workload

RULE = Rule(
    code="MEM017",
    name="model-parallel-not-needed",
    summary=N_("the model is cut into more parts than it needs"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Cut the model into as few parts as is fastest."""
    workload = case.workload
    engine = workload.actor.engine
    if engine.backend is not Backend.MEGATRON or not _plain(workload):
        return None
    paying = [proposal for proposal in _proposals(workload) if case.pays(proposal)]
    best = min(paying, key=case.seconds, default=None)
    if best is None:
        return None
    return Finding(
        rule=RULE,
        message=_(
            "{parts} hold the actor once, where {fewer} would do; {ranks} then work on sequences of their own "
            "instead of {before}"
        ).format(
            parts=counted(_parts(engine.parallel), "GPU"),
            fewer=_parts(best.actor.engine.parallel),
            ranks=counted(best.actor.engine.parallel.data, "rank"),
            before=engine.parallel.data,
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=workload.actor_update.phase,
        proposal=best,
    )


def _parts(parallel: Parallelism) -> int:
    return parallel.tensor * parallel.pipeline * parallel.context


def _plain(workload: Workload) -> bool:
    """Whether nothing but the sizes lays out the model: no experts, and no stages of another length."""
    parallel = workload.actor.engine.parallel
    ordinary = parallel.virtual_pipeline == 1 and parallel.first_stage_layers is None
    ordinary = ordinary and parallel.last_stage_layers is None and not workload.actor.engine.mtp_module
    return ordinary and workload.model.moe is None and parallel.expert == 1


def _proposals(workload: Workload) -> Iterator[Workload]:
    """The job with fewer parts of every kind, where each rank still gets as many sequences as others."""
    now = workload.actor.engine.parallel
    sequences = workload.batch.mini_batch_sequences
    for tensor, pipeline, context in product(*map(divisors, (now.tensor, now.pipeline, now.context))):
        sizes = {"tensor": tensor, "pipeline": pipeline, "context": context}
        if now.expert_tensor == now.tensor:  # it follows where nothing is said of it
            sizes["expert_tensor"] = tensor
        parallel = replace(now, **sizes)
        if parallel != now and sequences % parallel.data == 0:
            yield with_dividing_sizes(_laid(workload, parallel))


def _laid(workload: Workload, parallel: Parallelism) -> Workload:
    """The models that lie as the actor does, laid out otherwise."""
    now = workload.actor.engine.parallel

    def laid(engine: Engine) -> Engine:
        alike = engine.backend is Backend.MEGATRON and engine.parallel == now
        return replace(engine, parallel=parallel) if alike else engine

    changed = workload.with_actor(engine=laid(workload.actor.engine))
    if workload.reference is not None:
        changed = changed.with_reference(engine=laid(workload.reference.engine))
    if workload.critic is not None:
        changed = changed.with_critic(engine=laid(workload.critic.engine))
    return changed
