"""Keep a sequence of the reference or the critic on one GPU where it fits

What it checks
--------------

The reference or the critic shares each sequence between GPUs, and sharing it between fewer in that model alone is affordable and faster.
The actor keeps the number that it needs.

Why it matters
--------------

What makes the actor share a sequence is its backward pass, with activations and gradients of the logits.
A reference only goes forward, so that a sequence often fits on one GPU there, and nothing has to be exchanged in its layers.
A critic has one column in the place of the logits.

When it does not apply
----------------------

The reference is the actor with its adapters switched off, or the sequences of the actor fit on fewer GPUs as well: then both change together.
The legacy workers build the reference in the actor's process group: there it has the actor's number, whatever is set; the critic has a key of its own in every release.
From the model engines on, 0.7.1 and later, each role has its own: the deprecated key of the reference follows that of the actor, the key in the reference's engine section does not.
Each role deals out a batch by its own number of data-parallel ranks, which has to divide the sequences.
Sequences are dealt out evenly for the ranks of the actor, so those of a role with more ranks may differ more in their tokens.

Sources
-------

verl documentation, performance tuning guide, "Ulysses Sequence Parallel for Long Context Training": sizes may differ between roles.
verl 0.7.1 ``workers/fsdp_workers.py`` (one size for actor and reference), 0.8.0 and 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (a mesh and a process group per engine), ``workers/engine_workers.py`` (a batch is dealt out by the mesh of its role).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.sequence_sharing import fewer_ranks, paying_together, sharing, with_room
from tuner.workload import Engine, Phase, Role

RULE = Rule(
    code="SEQ004",
    name="ulysses-of-one-role",
    summary=N_("reference or critic share sequences that would fit on fewer GPUs"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)

_NAMES = {Role.REFERENCE: N_("reference"), Role.CRITIC: N_("critic")}
_PHASES = {
    Role.REFERENCE: (Phase.REF_LOG_PROB,),
    Role.CRITIC: (Phase.UPDATE_CRITIC, Phase.VALUES),
}


def check(case: Case) -> Finding | None:
    """Share the sequences of the role that gains most between fewer GPUs."""
    workload = case.workload
    proposals = [
        (role, ranks, proposal)
        for role, engine in _engines(case).items()
        for ranks in fewer_ranks(workload, engine)
        if case.pays(proposal := with_room(sharing(workload, role, ranks), _PHASES[role]))
    ]
    if not proposals:
        return None
    role, ranks, proposal = min(proposals, key=lambda choice: case.seconds(choice[2]))
    now = _engines(case)[role].parallel.ulysses
    return Finding(
        rule=RULE,
        message=_(
            "{now} GPUs share each sequence of the {role}, whose passes have room for it on {ranks}"
        ).format(now=now, role=_(_NAMES[role]), ranks=ranks),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=_PHASES[role][0],
        proposal=proposal,
    )


def _engines(case: Case) -> dict[Role, Engine]:
    """The engines that may share sequences otherwise than the actor; not the reference where both need not."""
    workload = case.workload
    engines, reference = {}, workload.reference
    if reference is not None and reference.separate and not paying_together(case):
        engines[Role.REFERENCE] = reference.engine
    if workload.critic is not None:
        engines[Role.CRITIC] = workload.critic.engine
    return engines
