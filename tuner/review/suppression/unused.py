"""A comment that ignores nothing

What it checks
--------------

Comments of the form ``# tuner: ignore[CODE] reason`` and ``# tuner: file-ignore[CODE] reason``.
It is a warning where one names no rule or one that does not exist, or where a reason is asked for and missing.
It is advice where none of the findings that the comment names is there any more.

Why it matters
--------------

A comment with a typing error ignores nothing, and what it was meant for is reported all the same.
One whose finding is gone would hide the next finding of that rule, which nobody has looked at.

When it does not apply
----------------------

Rules that are not selected, or whose evidence is not asked for, are not counted as unused.
Neither is anything with ``--no-ignores``, which reports all findings.

Sources
-------

The page on ignoring findings says what a comment covers.
"""  # noqa: D415, E501 - the first line is the page's title, and a sentence of a page has one line

from collections.abc import Collection, Iterator

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _, ngettext
from tuner.review.project.selection import KnownRules
from tuner.review.suppression.comments import Suppression

RULE = Rule(
    code="CFG901",
    name="unused-ignore",
    summary=N_("a comment ignores nothing, or names no rule"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)


def check(
    comment: Suppression, unused: Collection[str], known: KnownRules, *, require_reason: bool
) -> Iterator[Finding]:
    """What is wrong with one comment.

    Args:
        comment: it.
        unused: words of it that name a rule of which it covers no finding.
        known: all rules.
        require_reason: whether it has to say why.
    """
    if comment.instead:
        yield _finding(comment, _("this comment does nothing: write {verb}").format(verb=comment.instead))
        return
    if not comment.words:
        yield _finding(comment, _("this comment names no rule: write ignore[CODE] with its code or name"))
    for word in comment.words:
        if word.strip().upper() in known.groups:
            text = _("{word} is a group: a comment names single rules, by code or name")
            yield _finding(comment, text.format(word=word))
        elif known.code(word) is None:
            near = known.near(word)
            text = (
                _("there is no rule {word}; did you mean {near}?") if near else _("there is no rule {word}")
            )
            yield _finding(comment, text.format(word=word, near=near))
    if require_reason and not comment.reason:
        yield _finding(comment, _("this comment gives no reason, which the project's settings ask for"))
    if unused:
        text = ngettext(
            "no finding of {rules} is there to be ignored",
            "no finding of any of {rules} is there to be ignored",
            len(unused),
        )
        yield _finding(comment, text.format(rules=", ".join(unused)), Severity.ADVICE)


def _finding(comment: Suppression, message: str, severity: Severity = RULE.severity) -> Finding:
    return Finding(
        rule=RULE,
        message=message,
        severity=severity,
        evidence=Evidence.EXACT,
        location=comment.place,
    )
