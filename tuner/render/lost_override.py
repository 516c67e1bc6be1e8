"""Overrides of a launch script that never reach the trainer

What it checks
--------------

Whether the command that starts the trainer ends before all of its overrides.
It does so at a line without a backslash at its end, and at a comment between lines that go on.
A backslash with a blank behind it, such as one in front of a comment, is none at the end: its line is named.
The shell takes what stands below for a command of its own, which it does not find.
Each place where that happens is one finding, at the first override that is lost.

Why it matters
--------------

The trainer starts all the same, with its defaults in place of the settings that are lost.
It does not behind a backslash before a blank: that blank is a word for the trainer, as may be those of the comment, and Hydra stops at a word that is no override.
The message of the shell comes when the training has ended, if anybody sees it.
Memory and seconds are those of the job that starts, without what is lost.

When it does not apply
----------------------

Overrides in an array may have comments between them.
A comment behind the last line of the command loses nothing.
A configuration in YAML and overrides that are typed cannot lose any.

Sources
-------

POSIX.1-2017, Shell Command Language, 2.2.1 (escape character) and 2.3 (token recognition): a backslash before a newline continues the line, and a comment ends at the newline whatever stands before it.
"""  # noqa: D415, E501 - the first line is the page's title, and a sentence of a page has one line

from collections.abc import Iterator
from itertools import groupby

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.lost_continuation import lost_continuation
from tuner.inputs.user_input import LostOverride, UserInput
from tuner.language import N_, _, ngettext
from tuner.override_text import override_key
from tuner.render.words import listed

RULE = Rule(
    code="CFG180",
    name="lost-override",
    summary=N_("overrides of a launch script never reach the trainer"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)
_NAMED = 5  # overrides in one message


def check(given: UserInput) -> Iterator[Finding]:
    """One finding for each place at which the launch ends too early."""
    line = lost_continuation(given)
    for place, group in groupby(given.lost, key=lambda lost: lost.command):
        lost = list(group)
        stops = line is not None and place == given.lost[0].command  # below, what is lost goes on
        yield Finding(
            rule=RULE,
            message=_stopped(lost, line) if stops else _message(lost),
            severity=RULE.severity,
            evidence=Evidence.EXACT,
            keys=tuple(override_key(override.text) for override in lost),
            location=lost[0].location,
        )


def _message(lost: list[LostOverride]) -> str:
    return ngettext(
        "this override never reaches the trainer, since the command ends on the line before it: {overrides}",
        "these overrides never reach the trainer, since the command ends on the line before them: "
        "{overrides}",
        len(lost),
    ).format(overrides=_named(lost))


def _stopped(lost: list[LostOverride], line: int | None) -> str:
    return _(
        "the backslash of line {line} stands before a blank and continues nothing: the trainer gets a word "
        "that is no override, at which Hydra stops, and never {overrides}"
    ).format(line=line, overrides=_named(lost))


def _named(lost: list[LostOverride]) -> str:
    names = [override.text for override in lost[:_NAMED]]
    rest = len(lost) - len(names)
    if rest:
        names.append(ngettext("{count} more", "{count} more", rest).format(count=rest))
    return listed(names)
