"""A part of the job that is not counted

What it checks
--------------

Settings by which the job has a part that the estimate does not hold, such as another optimizer than Adam.
The verdict names each of them, and this finding lets a check see them one by one.
It is a warning where memory is missing from the answer, and advice where only seconds are.

Why it matters
--------------

A verdict is about what was counted.
A part that shares the GPUs may be what makes the job run out of memory.

When it does not apply
----------------------

Settings with the release's own value are silent.
So are settings without effect on memory and time, such as a learning rate or the name of a run.

Sources
-------

The page on what is counted lists every key of every bundled release with its class.
"""  # noqa: D415 - the first line is the page's title

from collections.abc import Iterator

from tuner.consultation.result import Consultation
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.trainers.key_facts import Affects

RULE = Rule(
    code="CFG002",
    name="not-modelled",
    summary=N_("a part of the job that is not counted"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)


def check(answer: Consultation) -> Iterator[Finding]:
    """One finding per part that the answer leaves out."""
    for part in answer.left_out:
        yield Finding(
            rule=RULE,
            message=_("{name}: {affects} not counted, {reason} ({key}={value})").format(
                name=part.name,
                affects=_(part.affects.value),
                reason=part.reason,
                key=part.key,
                value=part.value,
            ),
            severity=Severity.ADVICE if part.affects is Affects.SECONDS else RULE.severity,
            evidence=Evidence.EXACT,
            keys=(part.key,),
            location=None if part.origin is None else part.origin.location,
        )
