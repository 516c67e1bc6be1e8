"""The parts of a workload that settings decide, each with the table of its fields."""

from collections.abc import Iterator

from tuner.trainers.verl.fields import engine as engines
from tuner.trainers.verl.fields import head as heads
from tuner.trainers.verl.fields import rollout as rollouts
from tuner.trainers.verl.fields import sync as syncs
from tuner.trainers.verl.fields.batching import ACTOR, BATCH, BATCHING, BatchRole, PassContext
from tuner.trainers.verl.fields.context import ReleaseContext
from tuner.trainers.verl.fields.engine import engine_fields
from tuner.trainers.verl.fields.group_filter import GROUP_FILTER, sizes_rounds
from tuner.trainers.verl.fields.head import HEAD, HeadContext
from tuner.trainers.verl.fields.megatron import MEGATRON
from tuner.trainers.verl.fields.reference import REFERENCE
from tuner.trainers.verl.fields.role import EngineContext
from tuner.trainers.verl.fields.rollout_fields import ROLLOUT, RolloutContext
from tuner.trainers.verl.fields.saving import SAVING, SavedRole, SavingContext
from tuner.trainers.verl.fields.served import ServedSource
from tuner.trainers.verl.fields.services import reward_source, teacher_source
from tuner.trainers.verl.fields.sync import SYNC, SyncContext
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.read import batches_by_reference_keys
from tuner.trainers.verl.source import ReleaseSettings, Role
from tuner.trainers.workload_part import Path, WorkloadPart
from tuner.workload import Backend, Engine, Reference, Rollout, Service, ServiceRole, Workload

#: What proposals choose of a reward model's engine under Megatron.
_OF_REWARD = ("param_offload", "fused_rotary")

_OF_BATCH = ("engine_tokens",)  # what the rollout engine is built for decides it


def parts(source: ReleaseSettings, workload: Workload) -> Iterator[WorkloadPart]:
    """Every part. One whose keys others follow by interpolation comes before them."""
    if source.program.fine_tunes:
        yield from _fine_tuned(source, workload)
        return
    context_of_batch = ReleaseContext(source=source)
    yield WorkloadPart(path=("batch",), fields=BATCH, context=context_of_batch, following=_OF_BATCH)
    if workload.batch.group_filter is not None and sizes_rounds(source):
        yield WorkloadPart(path=("batch", "group_filter"), fields=GROUP_FILTER, context=context_of_batch)
    yield WorkloadPart(path=("actor",), fields=ACTOR, context=ReleaseContext(source=source))
    yield WorkloadPart(path=(), fields=(REFERENCE,), context=ReleaseContext(source=source))
    yield from _passes(source, workload)
    yield from _engines(source, workload)
    yield from _saved(source, workload)
    yield from _heads(source, workload)
    yield _rollout(source, workload)
    yield from _reward(source, workload)
    yield from _teachers(source, workload)
    context = SyncContext(
        source=source, model=workload.model, rollout=workload.generator, actor=workload.actor.engine
    )
    yield WorkloadPart(path=("sync",), fields=SYNC, context=context, following=syncs.FOLLOWING)


def _fine_tuned(source: ReleaseSettings, workload: Workload) -> Iterator[WorkloadPart]:
    """The parts of a job that learns from given sequences."""
    from tuner.trainers.verl.fields.fine_tuning import GIVEN_BATCH  # few jobs are of it

    yield WorkloadPart(path=("batch",), fields=GIVEN_BATCH, context=ReleaseContext(source=source))
    yield _pass(source, ("actor", "update"), "actor", workload.actor.engine)
    yield _engine(source, workload, "actor", workload.actor.engine)
    yield from _saved(source, workload)
    if source.program is Program.SFT_ENGINE:
        yield from _heads(source, workload)
    else:
        yield WorkloadPart(path=("actor",), following=("head",))


def _passes(source: ReleaseSettings, workload: Workload) -> Iterator[WorkloadPart]:
    actor, reference, critic = workload.actor, workload.reference, workload.critic
    yield _pass(source, ("actor", "update"), "actor", actor.engine)
    if actor.log_prob is not None:
        yield _pass(source, ("actor", "log_prob"), "log_prob", actor.engine)
    if reference is not None:
        yield _pass(source, ("reference", "log_prob"), "ref", reference.engine)
    if critic is not None:
        yield _pass(source, ("critic", "update"), "critic", critic.engine)
        yield _pass(source, ("critic", "values"), "values", critic.engine)


def _pass(source: ReleaseSettings, path: Path, role: BatchRole, engine: Engine) -> WorkloadPart:
    context = PassContext(source=source, role=role, engine=engine)
    return WorkloadPart(path=(*path, "batching"), fields=BATCHING, context=context)


def _engines(source: ReleaseSettings, workload: Workload) -> Iterator[WorkloadPart]:
    reference, critic = workload.reference, workload.critic
    yield _engine(source, workload, "actor", workload.actor.engine)
    if reference is not None and reference.separate:
        yield _engine(source, workload, "ref", reference.engine)
    if critic is not None:
        yield _engine(source, workload, "critic", critic.engine)


def _engine(source: ReleaseSettings, workload: Workload, role: Role, engine: Engine) -> WorkloadPart:
    of_reference = workload.reference.model if role == "ref" and workload.reference is not None else None
    context = EngineContext(
        source=source,
        role=role,
        backend=engine.backend,
        model=of_reference or workload.model,
        gpus=engine.parallel.gpus,
    )
    following = engines.following(context)
    return WorkloadPart(
        path=("reference" if role == "ref" else role, "engine"),
        fields=tuple(
            field for field in engine_fields(source, role, engine.backend) if field.path not in following
        ),
        context=context,
        following=following,
    )


def _saved(source: ReleaseSettings, workload: Workload) -> Iterator[WorkloadPart]:
    """The checkpoints that Megatron writes; of others nothing can be chosen."""
    roles: tuple[SavedRole, ...] = ("actor", "critic")
    for role in roles:
        model = workload.actor if role == "actor" else workload.critic
        if model is not None and model.saving is not None and model.engine.backend is Backend.MEGATRON:
            context = SavingContext(source=source, role=role, engine=model.engine)
            yield WorkloadPart(path=(role, "saving"), fields=SAVING, context=context)


def _heads(source: ReleaseSettings, workload: Workload) -> Iterator[WorkloadPart]:
    actor, reference = workload.actor, workload.reference
    context = HeadContext(source=source, model=workload.model, engine=actor.engine)
    yield WorkloadPart(path=("actor", "head"), fields=HEAD, context=context, following=heads.FOLLOWING)
    if reference is not None:
        yield from _reference(source, reference)


def _reference(source: ReleaseSettings, reference: Reference) -> Iterator[WorkloadPart]:
    """A reference of its own computes no entropy; one that is the actor has nothing of its own."""
    if reference.separate:
        yield WorkloadPart(path=("reference", "head"), following=(*heads.FOLLOWING, *heads.ENTROPY))
        return
    log_prob = () if batches_by_reference_keys(source) else ("log_prob",)
    yield WorkloadPart(path=("reference",), following=("engine", "head", *log_prob))


def _rollout(source: ReleaseSettings, workload: Workload) -> WorkloadPart:
    rollout = workload.generator
    context = RolloutContext(
        source=source,
        rollout_engine=rollout.engine,
        version=rollout.engine_version,
        colocated=rollout.colocated,
        max_prompt_tokens=workload.batch.max_prompt_tokens,
        max_response_tokens=workload.batch.max_response_tokens,
        model=workload.model,
        gpu=workload.cluster.gpu,
    )
    return WorkloadPart(path=("rollout",), fields=ROLLOUT, context=context, following=rollouts.FOLLOWING)


def _reward(source: ReleaseSettings, workload: Workload) -> Iterator[WorkloadPart]:
    """The reward model: its inference engine, or what of an engine of the trainer can be chosen."""
    reward = workload.reward
    if reward is None:
        return
    if reward.server is not None:
        context = _served(reward_source(source), workload, reward, reward.server)
        yield WorkloadPart(path=("reward", "server"), fields=ROLLOUT, context=context)
    elif reward.engine is not None and reward.model is not None:
        yield _pass(source, ("reward", "scoring"), "reward", reward.engine)
        if reward.engine.backend is not Backend.MEGATRON:
            return
        engine = EngineContext(
            source=source,
            role="reward",
            backend=reward.engine.backend,
            model=reward.model,
            gpus=reward.engine.parallel.gpus,
        )
        fields = tuple(field for field in MEGATRON["reward"] if field.path in _OF_REWARD)
        yield WorkloadPart(path=("reward", "engine"), fields=fields, context=engine)


def _teachers(source: ReleaseSettings, workload: Workload) -> Iterator[WorkloadPart]:
    """The inference engine of each teacher, by its place among all services."""
    places = [at for at, it in enumerate(workload.services) if it.role is ServiceRole.TEACHER]
    for place, at in enumerate(places):
        teacher = workload.services[at]
        if teacher.server is not None:
            context = _served(teacher_source(source, place), workload, teacher, teacher.server)
            yield WorkloadPart(path=("services", str(at), "server"), fields=ROLLOUT, context=context)


def _served(source: ServedSource, workload: Workload, service: Service, server: Rollout) -> RolloutContext:
    """What reading and writing the inference engine of a service takes."""
    assert service.model is not None  # or nobody would serve it
    return RolloutContext(
        source=source,
        rollout_engine=server.engine,
        version=server.engine_version,
        colocated=service.shares_gpus,
        max_prompt_tokens=workload.batch.max_prompt_tokens,
        max_response_tokens=workload.batch.max_response_tokens,
        model=service.model,
        gpu=workload.cluster.gpu,
    )
