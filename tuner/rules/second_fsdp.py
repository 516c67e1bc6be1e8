"""FSDP2 in the place of FSDP1, with what the release makes of it."""

from msgspec.structs import replace

from tuner.rules.rungs import CRITIC_PHASES, states_on_host, synced_by_tensor
from tuner.workload import Backend, Engine, HeadKind, Phase, Workload


def sharded_by_second(workload: Workload, phase: Phase) -> Workload:
    """FSDP2 shards the model of a phase; the actor's takes its reference along."""
    critic, actor, reference = workload.critic, workload.actor, workload.reference
    if phase in CRITIC_PHASES:
        return workload if critic is None else workload.with_critic(engine=_second(critic.engine))
    if _needs_whole_head(workload):
        return workload
    changed = workload.with_actor(engine=_second(actor.engine))
    if changed == workload:
        return workload
    if reference is not None:
        changed = changed.with_reference(engine=_second(reference.engine))
    return synced_by_tensor(changed, phase)


def on_host_by_second(workload: Workload, phase: Phase) -> Workload:
    """The host makes the optimizer's step, for which FSDP1 has to give way to FSDP2."""
    return states_on_host(sharded_by_second(workload, phase), phase)


def _needs_whole_head(workload: Workload) -> bool:
    """Whether a fused head would read the projection where FSDP2 has it in shards."""
    second = workload.actor.engine.second
    fused = workload.actor.head.kind is not HeadKind.LOGITS
    return fused and second is not None and second.separate_embedding_units


def _second(engine: Engine) -> Engine:
    second = engine.second
    if second is None:
        return engine
    return replace(
        engine,
        backend=Backend.FSDP2,
        second=None,
        keeps_root=second.keeps_root,
        frees_root=second.frees_root,
        prefetch_effective=second.prefetch_effective,
        separate_embedding_units=second.separate_embedding_units,
        reshard_after_forward=second.reshard_after_forward,
        host_copy=second.host_copy,
    )
