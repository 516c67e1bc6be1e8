"""A key that this release does not have

What it checks
--------------

Keys of a file or override that the release does not have, neither in its YAML nor in its dataclasses.
The message names the nearest key that it does have.

Why it matters
--------------

A misspelled key changes nothing: the setting that was meant keeps its default.
Hydra refuses to start on an override without ``+`` for such a key; in a file, or with ``+``, it is accepted.
Sections that are dataclasses refuse it later, in the worker.

When it does not apply
----------------------

A key that was added with ``+`` and resembles no known key is taken for a setting of the user's own code.
A key that another finding explains, such as one that was renamed, is left to that finding.

Sources
-------

The composed configurations of the released packages, which tuner bundles.
"""  # noqa: D415 - the first line is the page's title

from collections.abc import Iterator

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.render.answer import Answer

RULE = Rule(
    code="CFG001",
    name="unknown-key",
    summary="a key that this release does not have",
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)


def check(answer: Answer) -> Iterator[Finding]:
    """One finding per unknown key that no other finding names."""
    explained = {key for item in answer.advice.recommendations for key in item.finding.keys}
    for unknown in answer.unknown:
        if unknown.key in explained:
            continue
        nearest = f"; the nearest known key is {unknown.nearest}" if unknown.nearest is not None else ""
        yield Finding(
            rule=RULE,
            message=f"{answer.advice.workload.release} does not have the key {unknown.key}{nearest}",
            severity=RULE.severity,
            evidence=Evidence.EXACT,
            keys=(unknown.key,),
            location=unknown.location,
        )
