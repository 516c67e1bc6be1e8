"""Let a reward model's engine sleep while it has nothing to judge

What it checks
--------------

A phase is over the limit while the inference engine of a reward model, on the same GPUs, keeps weights and KV cache.
The proposal lets it sleep outside its own phase.

Why it matters
--------------

The engine works once in a step, after the responses are there.
Awake it keeps its whole share of the card, in the update as well as in the rollout.

When it does not apply
----------------------

On GPUs of its own it takes nothing of the trainer's.
Its weights wait on the host meanwhile, which takes as much of the node's memory, and a copy over PCIe in each step.

Sources
-------

verl 0.9.1, ``experimental/reward_loop/reward_loop.py`` (``compute_rm_score``), ``workers/rollout/vllm_rollout/vllm_async_server.py`` (``sleep``).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import service_asleep
from tuner.rules.wording import over

RULE = Rule(
    code="ROL023",
    name="reward-sleep",
    summary=N_("a reward model's engine keeps its memory while others need it"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Put the engine to sleep where another phase is short of memory."""
    rung = due_proposal(case, service_asleep)
    if rung is None:
        return None
    phase, proposal = rung
    return Finding(
        rule=RULE,
        message=_(
            "{shortage} while the engine of the reward model, which has nothing to do, stays awake"
        ).format(shortage=over(case, phase)),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )
