"""Gather the next layer's weights during the forward pass

What it checks
--------------

Forward prefetching is off, the release honours it, and it is affordable and faster.

Why it matters
--------------

Attention asks the GPU in each layer where sequences begin, and the host waits for the answer.
Without prefetching the next layer's all-gather is issued only after the kernels that it launches then.
With small micro-batches, where gathering takes longer than what is left to compute, that leaves the links idle.
It costs one more gathered layer.

When it does not apply
----------------------

Computation, or launching it, is long enough to hide the gathering either way.
Only FSDP has it; under FSDP2 older releases ignore the switch.
There is no switch for the backward pass on purpose: FSDP prefetches there by itself, and the explicit policy after the backward of a layer can gather the wrong units where modules are nested.

Sources
-------

verl documentation, performance tuning guide, "Forward prefetch in FSDP training backend", with its note on backward prefetch.
torch, ``FullyShardedDataParallel`` (``forward_prefetch``: useful for CPU-bound workloads).
torchtitan, ``docs/fsdp.md``.
verl #6317 (FSDP2).
"""

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.workload import Backend, Workload

RULE = Rule(
    code="SYN001",
    name="forward-prefetch",
    summary=N_("the next layer's weights are gathered late in the forward pass"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Prefetch in every engine of the step that can."""
    proposal = _prefetching(case.workload)
    if proposal == case.workload or not case.pays(proposal):
        return None
    return Finding(
        rule=RULE,
        message=_(
            "each layer's weights are gathered only after the previous layer's kernels are "
            "launched; one more gathered layer fits"
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=case.workload.actor_update.phase,
        proposal=proposal,
    )


def _prefetching(workload: Workload) -> Workload:
    changed = workload
    if _can(workload.actor.engine.backend, workload.actor.engine.prefetch_effective):
        changed = changed.with_actor_engine(forward_prefetch=True)
    critic = workload.critic
    if critic is not None and _can(critic.engine.backend, critic.engine.prefetch_effective):
        changed = changed.with_critic(engine=replace(critic.engine, forward_prefetch=True))
    return changed


def _can(backend: Backend, effective: bool) -> bool:
    return backend is not Backend.MEGATRON and effective
