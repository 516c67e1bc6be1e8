"""A strategy that the program of a launch raises an error for

What it checks
--------------
``actor_rollout_ref.actor.strategy`` against the words that the program a launch starts compares it with, where it raises an error for any other.
Of a copy of verl, the program's own file is read.
There is no override: the words of the program are named.

Why it matters
--------------
Older programs, and recipes made of them, know ``fsdp`` and ``megatron`` alone, whatever the workers beside them can do.
They end with ``NotImplementedError`` before a worker starts.
The same words decide whether FSDP2 is proposed.

When it does not apply
----------------------
The releases' own programs, but for recipes of 0.4.0 and 0.4.1 (DAPO, PRIME, SPIN, SPPO), which know two of three.
Programs of a copy that compare it nowhere, in another order, or under a condition.

Sources
-------
verl 0.4.0 ``trainer/main_ppo.py:78-91`` (three strategies), ``recipe/dapo/main_dapo.py:67-83``, ``recipe/prime/main_prime.py:75-91``; 0.4.1 ``recipe/dapo/main_dapo.py:76-92``; 0.5.0 ``recipe/dapo/main_dapo.py:83`` (three).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import report
from tuner.trainers.verl.checks.settings import ACTOR
from tuner.trainers.verl.models_built import taken_strategies
from tuner.workload import Workload

RULE = Rule(
    code="CFG217",
    name="strategy-refused",
    summary=N_("a strategy that the program of a launch raises an error for"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

REFUSED_BY = RefusedBy.PROGRAM

_KEY = f"{ACTOR}.strategy"


def check(settings: Settings, _workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a strategy that the program does not take."""
    taken, value = taken_strategies(settings, version), settings.get(_KEY)
    if taken is None or not isinstance(value, str) or value in taken.words:
        return
    text = _("{key}={value} is none of {words}, and {file}:{line} raises an error for others")
    message = text.format(
        key=_KEY, value=value, words=", ".join(taken.words), file=taken.file, line=taken.line
    )
    yield report(RULE, settings, message, keys=[_KEY])
