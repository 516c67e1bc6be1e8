"""Keep states on the card where everything fits with them

What it checks
--------------

Weights or optimizer states are offloaded between phases, and leaving them on the card is affordable and faster.
Where the rollout's cache is in the way and has room to spare, a smaller memory fraction goes with it.

Why it matters
--------------

Offloaded states cross the host link twice per phase that needs them.
Most releases do so at the link's speed; FSDP2 from verl 0.6.0 to 0.9.0 and Megatron before 0.9.0 copy the weights into memory that the system clears on the way, at a fraction of it.
Where no phase lacks the room, that time is lost.

When it does not apply
----------------------

The rollout's cache uses the room: then offloading is what makes the rollout fast.

Sources
-------

verl 0.9.1, ``workers/engine/base.py``, ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu``, ``load_fsdp_optimizer``).
"""

from typing import Any

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rollout_engine import affordable
from tuner.workload import Engine, Workload

RULE = Rule(
    code="MEM009",
    name="offload-not-needed",
    summary=N_("states are offloaded although everything fits with them on the card"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)

# what to keep on the card: weights, optimizer states, or both
CHOICES: dict[str, dict[str, Any]] = {
    N_("weights"): {"param_offload": False},
    N_("optimizer states"): {"optimizer_offload": False},
    N_("weights and optimizer states"): {"param_offload": False, "optimizer_offload": False},
}


def check(case: Case) -> Finding | None:
    """Keep on the card whatever makes the shortest step."""
    workload = case.workload
    if not case.estimate.fits():  # no time for what is not missing before the job runs
        return None
    changed = {name: _without_offload(workload, changes) for name, changes in CHOICES.items()}
    room = {name: affordable(case, proposal) for name, proposal in changed.items()}
    proposals = {name: it for name, it in room.items() if it is not None and case.faster(it)}
    if not proposals:
        return None
    best = min(proposals, key=lambda name: case.seconds(proposals[name]))
    return Finding(
        rule=RULE,
        message=_(
            "{states} travel to the host and back in every step, although each phase has room for them"
        ).format(states=_(best)),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        proposal=proposals[best],
        notes=_notes(workload, proposals[best]),
    )


def _notes(workload: Workload, proposal: Workload) -> tuple[str, ...]:
    """What else is changed, where the rollout's cache makes the room."""
    if workload.rollout is None or proposal.generator.memory_fraction == workload.generator.memory_fraction:
        return ()
    before, after = workload.generator.memory_fraction, proposal.generator.memory_fraction
    note = _("a memory fraction of {after:.2f} instead of {before:.2f} makes room for them")
    return (note.format(after=after, before=before),)


def _without_offload(workload: Workload, changes: dict[str, Any]) -> Workload:
    def keep(engine: Engine) -> Engine:
        return engine if engine.streamed_offload else replace(engine, **changes)

    changed = workload.with_actor(engine=keep(workload.actor.engine))
    if workload.critic is not None:
        changed = changed.with_critic(engine=keep(workload.critic.engine))
    return changed
