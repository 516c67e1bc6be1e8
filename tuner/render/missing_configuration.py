"""A launch names a configuration that is not here

What it checks
--------------

Whether the configuration is at hand that the launch rests on.
``--config-name`` names it, or the code of the program that is started.
It is missing where no folder has the file in which Hydra would look, and where the program's code computes its name.
The message says which folders were looked in.
So is a YAML file from which the script itself has a program read settings of the launch, unless they are given behind the script.

Why it matters
--------------

Such a file may set every key that the launch itself does not set.
Memory, seconds and other findings are those of the trainer's own configuration with what the launch sets, and may not hold of the job.
So nothing is proposed to be pasted, no fix is offered, and a refusal that rests on a default is none.

When it does not apply
----------------------

The trainer's own configurations, and those of its recipes, are known by their names.
A file that lies in the tree of the launch is read.

Sources
-------

Hydra 1.3 ``main.py`` and ``_internal/utils.py``: a relative path is counted from the file of the program, ``--config-path`` and ``--config-name`` take the place of what the code says, and ``--config-dir`` adds a folder.
"""  # noqa: D415, E501 - the first line is the page's title, and a sentence of a page has one line

from collections.abc import Iterator

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.user_input import UserInput
from tuner.language import N_, _

RULE = Rule(
    code="CFG185",
    name="missing-configuration",
    summary=N_("a launch names a configuration that is not here"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)


def check(given: UserInput) -> Iterator[Finding]:
    """The finding of a launch whose configuration is missing."""
    if given.missing is not None:
        from tuner.inputs.missing_configuration import missing_text  # of few launches

        yield Finding(
            rule=RULE,
            message=_("{what}; the figures are those of the trainer's own configuration").format(
                what=missing_text(given.missing)
            ),
            severity=RULE.severity,
            evidence=Evidence.EXACT,
            location=given.missing.location,
        )
