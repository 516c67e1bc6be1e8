"""Let the reward model judge more at a time

What it checks
--------------

The trainer's engine runs the reward model, with a token budget or a micro-batch far below what fits.

Why it matters
--------------

The trainer's FSDP engine offloads a reward model unconditionally, so its weights cross PCIe for every micro-batch.
Under Megatron a micro-batch of few sequences keeps the GPUs busy with launching kernels.

When it does not apply
----------------------

An inference engine runs the reward model, as since verl 0.7.1: how much it reads at a time is its own setting.
The weights cross PCIe faster than the arithmetic of one micro-batch takes.

Sources
-------

verl 0.6.1, ``workers/fsdp_workers.py`` (``RewardModelWorker._build_model``, ``compute_rm_score``), ``workers/reward_model/megatron/reward_model.py`` (``compute_reward``).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.passes import beyond, larger, site_of
from tuner.rules.wording import longest
from tuner.workload import Phase

RULE = Rule(
    code="BAT014",
    name="reward-budget",
    summary=N_("the reward model can judge more at a time"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Raise the size of the reward model's pass."""
    workload = case.workload
    site = site_of(workload, Phase.REWARD)
    if site is None or site.size(workload) < 1:
        return None
    size = larger(case, site)
    if size is None:
        return None
    text = (
        _(
            "the reward model takes {sequences} at a time and fetches its weights from the host for each; "
            "{size} fit"
        )
        if site.engine.streamed_offload
        else _("the reward model takes {sequences} at a time; {size} fit")
    )
    return Finding(
        rule=RULE,
        message=text.format(sequences=longest(site.size(workload)), size=size),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=site.phase,
        proposal=site.resized(workload, size),
        notes=beyond(case, site, size),
    )
