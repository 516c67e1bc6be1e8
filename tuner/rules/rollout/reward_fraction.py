"""Give a reward model's engine the memory that it needs and no more

What it checks
--------------

The inference engine of a reward model cannot start with its memory fraction, or its phase is over the limit with it.
The proposal is the nearest fraction with which the engine starts, or the largest with which the phase fits.

Why it matters
--------------

The engine takes its share of the card beside the trainer's idle models and the sleeping rollout engine.
Too small a share holds its weights and no KV cache: the engine stops before the first step.

When it does not apply
----------------------

No fraction is enough: then its weights need more GPUs of one replica, or the trainer's states have to leave the card.
A reward model that the trainer's own engine runs has no fraction.

Sources
-------

verl 0.9.1, ``experimental/reward_loop/reward_model.py``.
vLLM, ``v1/core/kv_cache_utils.py``, ``check_enough_kv_cache_memory``.
verl #2042, #6818.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due
from tuner.rules.reward_engine import largest_reward_fraction, problem, starting_fraction
from tuner.rules.rungs import least_service_cache
from tuner.rules.wording import over
from tuner.workload import Phase, Rollout, Workload

RULE = Rule(
    code="ROL022",
    name="reward-fraction",
    summary=N_("the memory fraction of a reward model's engine is too small or too large"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Another fraction, where one helps."""
    reward = case.workload.reward
    if reward is None or reward.server is None:
        return None
    reason = problem(case.workload)
    if reason is not None:
        return _startable(case, reward.server, reason)
    phase = due(case, least_service_cache, among=(Phase.REWARD,))
    proposal = None if phase is None else largest_reward_fraction(case, below=reward.server.memory_fraction)
    if phase is None or proposal is None:
        return None
    return _finding(
        _(
            "{shortage} with a memory fraction of {fraction:.2f} of the reward model's "
            "engine; {fitting:.2f} fits"
        ).format(
            shortage=over(case, phase),
            fraction=reward.server.memory_fraction,
            fitting=_fraction(proposal),
        ),
        case.severity(phase),
        proposal,
    )


def _startable(case: Case, server: Rollout, reason: str) -> Finding | None:
    """A fraction with which the engine starts, where there is one that has room."""
    proposal = starting_fraction(case, now=server.memory_fraction)
    if proposal is None:
        return None
    text = (
        _("{reason}: {fraction:.2f} is too small, it starts with {starting:.2f}")
        if _fraction(proposal) > server.memory_fraction
        else _("{reason}: {fraction:.2f} is too large, it starts with {starting:.2f}")
    )
    message = text.format(reason=reason, fraction=server.memory_fraction, starting=_fraction(proposal))
    return _finding(message, Severity.ERROR, proposal)


def _finding(message: str, severity: Severity, proposal: Workload) -> Finding:
    return Finding(
        rule=RULE,
        message=message,
        severity=severity,
        evidence=Evidence.MODELLED,
        phase=Phase.REWARD,
        proposal=proposal,
    )


def _fraction(workload: Workload) -> float:
    reward = workload.reward
    return 0.0 if reward is None or reward.server is None else reward.server.memory_fraction
