"""Make the optimizer step on the host when states do not fit

What it checks
--------------

A training pass is over the limit although its micro-batch is as small as can be, because weights, gradients and optimizer states are.
The proposal keeps the states on the host for good: FSDP2's CPU offload policy, or a share of Megatron's optimizer.

Why it matters
--------------

Sixteen bytes per parameter and shard are resident in an update, and AdamW's step adds four more for a moment.
Offloading between phases does not change that; a step on the host does.

When it does not apply
----------------------

Anything smaller helps: the step on the host is one thread's, as Ray starts a worker, and takes seconds for every mini-batch, and weights are fetched for every micro-batch.
FSDP1 has no such policy.

Sources
-------

torch, ``distributed/fsdp``, ``CPUOffloadPolicy``.
Megatron-Core, ``optimizer/cpu_offloading`` (share of the optimizer on the host).
verl documentation, best practices, and the DeepSeek-V3 recipe.
"""

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_phases
from tuner.rules.rungs import engine_of, states_on_host, with_engine
from tuner.rules.wording import over
from tuner.workload import Backend, Engine, Phase

RULE = Rule(
    code="MEM011",
    name="optimizer-on-host",
    summary=N_("model states alone are over the limit of the update"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)

TENTHS = range(1, 11)


def check(case: Case) -> Finding | None:
    """Keep as much of the optimizer on the host as is needed."""
    phases = due_phases(case, states_on_host)
    if not phases:
        return None
    proposal = case.workload
    for phase in phases:
        proposal = with_engine(proposal, phase, _smallest_share(case, phase))
    worst = phases[0]
    return Finding(
        rule=RULE,
        message=_("{shortage}, and its model states are what is left to move").format(
            shortage=over(case, worst)
        ),
        severity=case.severity(worst),
        evidence=Evidence.MODELLED,
        phase=worst,
        proposal=proposal,
    )


def _smallest_share(case: Case, phase: Phase) -> Engine:
    engine = engine_of(case.workload, phase)
    everything = engine_of(states_on_host(case.workload, phase), phase)
    if engine.backend is not Backend.MEGATRON:
        return everything
    shares = (
        replace(engine, optimizer_offload_fraction=tenths / 10)
        for tenths in TENTHS
        if tenths / 10 > engine.optimizer_offload_fraction
    )
    fitting = (share for share in shares if case.eases(with_engine(case.workload, phase, share), phase))
    return next(fitting, everything)
