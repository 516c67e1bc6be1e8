"""Which GPUs share a sequence, by role: actor, reference and critic may each have a number of their own."""

from collections.abc import Collection

from msgspec.structs import replace

from tuner.rules.case import Case
from tuner.rules.passes import site_of, with_dividing_sizes
from tuner.rules.rungs import CRITIC_PHASES, engine_of, one_sequence
from tuner.workload import Backend, Engine, Phase, Role, Workload


def sequence_splits(workload: Workload, phase: Phase) -> list[int]:
    """Larger numbers of GPUs that may share a sequence: they divide heads and stay in a node."""
    engine, model = engine_of(workload, phase), workload.model
    if engine.backend is Backend.MEGATRON or not engine.packed:
        return []
    if phase in CRITIC_PHASES and workload.critic is not None:
        model = workload.critic.model
    gpus = engine.parallel.gpus
    return [
        ranks
        for ranks in range(engine.parallel.ulysses + 1, min(workload.cluster.gpus_per_node, gpus) + 1)
        if gpus % ranks == 0
        and model.heads % ranks == 0
        and (model.kv_heads % ranks == 0 or ranks % model.kv_heads == 0)
        and workload.batch.mini_batch_sequences % (gpus // ranks) == 0
    ]


def sharing(workload: Workload, role: Role, ranks: int) -> Workload:
    """``ranks`` GPUs share each sequence in the model of one role; as it was where the job has none."""

    def split(engine: Engine) -> Engine:
        return replace(engine, parallel=replace(engine.parallel, ulysses=ranks))

    if role is Role.ACTOR:
        return workload.with_actor(engine=split(workload.actor.engine))
    if role is Role.REFERENCE and workload.reference is not None:
        return workload.with_reference(engine=split(workload.reference.engine))
    if role is Role.CRITIC and workload.critic is not None:
        return workload.with_critic(engine=split(workload.critic.engine))
    return workload


def split_over(workload: Workload, phases: Collection[Phase], ranks: int) -> Workload:
    """``ranks`` GPUs share each sequence, one at a time in some phases.

    In the actor and its reference, or in the critic: in those that the phases are of.
    """
    changed = workload
    if any(phase not in CRITIC_PHASES for phase in phases):
        changed = sharing(sharing(changed, Role.ACTOR, ranks), Role.REFERENCE, ranks)
    if any(phase in CRITIC_PHASES for phase in phases):
        changed = sharing(changed, Role.CRITIC, ranks)
    for phase in phases:
        changed = one_sequence(changed, phase)
    return with_dividing_sizes(changed)


def sequence_shared(workload: Workload, phase: Phase) -> Workload:
    """As many GPUs of a node as possible share each sequence."""
    ranks = max(sequence_splits(workload, phase), default=None)
    return workload if ranks is None else split_over(workload, (phase,), ranks)


def fewer_ranks(workload: Workload, engine: Engine) -> list[int]:
    """Smaller numbers of GPUs that may share a sequence in an engine, where each GPU still gets one."""
    now, gpus = engine.parallel.ulysses, engine.parallel.gpus
    return [
        ranks
        for ranks in range(1, now)
        if now % ranks == 0 and workload.batch.mini_batch_sequences % (gpus // ranks) == 0
    ]


def paying_together(case: Case) -> list[Workload]:
    """Fewer GPUs per sequence in the actor and its reference alike, where that is affordable and faster."""
    workload = case.workload
    shared = [
        sharing(sharing(workload, Role.ACTOR, ranks), Role.REFERENCE, ranks)
        for ranks in fewer_ranks(workload, workload.actor.engine)
    ]
    phases = (Phase.UPDATE_ACTOR, Phase.TRAIN, Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB)
    return [proposal for candidate in shared if case.pays(proposal := with_room(candidate, phases))]


def with_room(workload: Workload, phases: Collection[Phase]) -> Workload:
    """The workload with budgets of at least one longest sequence in some phases, and dividing sizes."""
    for phase in phases:
        site = site_of(workload, phase)
        if site is not None and site.dynamic and site.size(workload) < 1:
            workload = site.resized(workload, 1)
    return with_dividing_sizes(workload)
