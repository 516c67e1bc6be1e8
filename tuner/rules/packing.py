"""The workload whose sequences are packed, as a proposal and as a rung."""

from msgspec.structs import replace

from tuner.rules.passes import site_of
from tuner.workload import Engine, Phase, Workload


def packed(workload: Workload) -> Workload:
    """Sequences are packed in every engine of the trainer that can."""
    changed = workload.with_actor(engine=_packing(workload.actor.engine))
    if workload.reference is not None:
        changed = changed.with_reference(engine=_packing(workload.reference.engine))
    if workload.critic is not None:
        changed = changed.with_critic(engine=_packing(workload.critic.engine))
    return changed


def needs_flash(before: Workload, after: Workload) -> bool:
    """Whether sequences are packed by a package that nothing shows to be there."""
    return any(
        one.engine.packed and one.engine.packs_by_flash and not other.engine.packed
        for one, other in zip(after.passes(), before.passes(), strict=False)
    )


def sequences_packed(workload: Workload, phase: Phase) -> Workload:
    """The workload with packed sequences, where a token budget of the phase leaves padding out of account."""
    site = site_of(workload, phase)
    padded = site is not None and site.dynamic and not site.engine.packed
    return packed(workload) if padded else workload


def _packing(engine: Engine) -> Engine:
    return replace(engine, packed=engine.packed or engine.packable)
