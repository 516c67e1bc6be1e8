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

Under FSDP2 a phase fits, upper end and all, and only leaves less room than wished.
Anything smaller helps: the step on the host is one thread's, as Ray starts a worker, and takes seconds for every mini-batch, and weights are fetched for every micro-batch.
FSDP1 has no such policy: there FSDP2 takes its place, under which a run cannot be resumed from checkpoints that FSDP1 saved.

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
from tuner.rules.rungs import engine_of, with_engine
from tuner.rules.second_fsdp import on_host_by_second
from tuner.rules.wording import over
from tuner.workload import Backend, Phase, Workload

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
    phases = [phase for phase in due_phases(case, on_host_by_second) if _is_worth_it(case, phase)]
    if not phases:
        return None
    proposal = case.workload
    for phase in phases:
        proposal = _moved(case, phase, proposal)
    worst = phases[0]
    first = Backend.FSDP in (engine_of(case.workload, phase).backend for phase in phases)
    return Finding(
        rule=RULE,
        message=_("{shortage}, and its model states are what is left to move").format(
            shortage=over(case, worst)
        ),
        severity=case.severity(worst),
        evidence=Evidence.MODELLED,
        phase=worst,
        proposal=proposal,
        notes=(_("A run that has saved checkpoints under FSDP1 cannot be resumed from them"),)
        if first
        else (),
    )


def _is_worth_it(case: Case, phase: Phase) -> bool:
    """Whether so slow a step is asked for: under FSDP2 not where a phase is on the card, if with little room."""
    in_phase = case.phase(phase)
    lacks = in_phase is None or in_phase.interval[1] > case.capacity_bytes
    return lacks or engine_of(case.workload, phase).backend is Backend.MEGATRON


def _moved(case: Case, phase: Phase, proposal: Workload) -> Workload:
    """A proposal with the smallest share of Megatron's optimizer on the host, or with all of FSDP's."""
    engine = engine_of(case.workload, phase)
    everything = on_host_by_second(proposal, phase)
    if engine.backend is not Backend.MEGATRON:
        return everything
    shares = (
        replace(engine, optimizer_offload_fraction=tenths / 10)
        for tenths in TENTHS
        if tenths / 10 > engine.optimizer_offload_fraction
    )
    fitting = (share for share in shares if case.eases(with_engine(case.workload, phase, share), phase))
    share = next(fitting, None)
    return everything if share is None else with_engine(proposal, phase, share)
