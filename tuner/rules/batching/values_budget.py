"""Let the critic's forward pass take more than its update

What it checks
--------------

The critic's forward pass takes no more at a time than fits, a larger budget or micro-batch of this pass alone shortens the step, and another size of the update would weigh tokens otherwise.

Why it matters
--------------

``values`` keeps no activations and ends in one column, so many times the update's sequences fit.
Where nothing is said of it, its size follows that of the update, which has to leave room for a backward pass.
A loss that each micro-batch averages for itself ties the update to its size; the forward pass has no loss, and gives the same values in any cut.

When it does not apply
----------------------

The loss weighs tokens alike in any cut: then both passes of the critic are sized together.
Megatron's critic has one size for both.

Sources
-------

verl 0.4.1 to 0.7.1, ``workers/fsdp_workers.py`` (``compute_values`` reads ``forward_micro_batch_size_per_gpu``), ``workers/critic/dp_critic.py``.
verl documentation, performance tuning guide, "Allow larger micro-batch sizes for critic and reward models".
"""

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, ngettext
from tuner.rules.case import Case
from tuner.rules.passes import beyond, larger, site_of
from tuner.rules.wording import longest
from tuner.workload import Backend, Pass, Phase, Workload

RULE = Rule(
    code="BAT015",
    name="values-budget",
    summary=N_("the critic's forward pass can take more at a time than its update"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Raise the size of the critic's forward pass alone."""
    site = site_of(case.workload, Phase.VALUES)
    if site is None or not case.workload.batch.loss_averages_micro_batches:
        return None
    if site.engine.backend is Backend.MEGATRON or site.size(case.workload) < 1:
        return None
    alone = replace(site, put=_put)
    size = larger(case, alone)
    if size is None:
        return None
    return Finding(
        rule=RULE,
        message=ngettext(
            "{phase} keeps no activations, yet takes {sequences} at a time; {size} fits",
            "{phase} keeps no activations, yet takes {sequences} at a time; {size} fit",
            size,
        ).format(phase=site.phase.value, sequences=longest(site.size(case.workload)), size=size),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=site.phase,
        proposal=alone.resized(case.workload, size),
        notes=beyond(case, alone, size),
    )


def _put(workload: Workload, values: Pass) -> Workload:
    return workload.with_critic(values=values)
