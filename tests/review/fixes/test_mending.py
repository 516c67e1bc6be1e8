"""A fix stays only if a second look at the file finds nothing at its keys."""

from collections.abc import Mapping

from tuner.errors import Location
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.review.checked import Checked, Edit, Fix, Line
from tuner.review.fixes.mending import Mended, mend


def line(code: str, override: str, edit: Edit | None, *, safe: bool = True, bad: bool = False) -> Line:
    severity = Severity.ERROR if bad else Severity.ADVICE
    rule = Rule(
        code=code,
        name=code.lower(),
        summary="",
        severity=severity,
        goal=Goal.TIME,
        numerics=Numerics.EXACT,
    )
    fix = None if edit is None else Fix(title=override, source="a", edits=(edit,), safe=safe)
    finding = Finding(rule=rule, message="", severity=severity, evidence=Evidence.EXACT)
    return Line(location=Location(source="a"), finding=finding, overrides=(override,), fix=fix, no_fix="why")


def mended(found: Mapping[bytes, tuple[Line, ...]], *, unsafe: bool = False) -> Mended:
    return mend(b"1", lambda data: Checked(source="a", lines=found.get(data, ())), unsafe=unsafe)


def to(text: str) -> Edit:
    return Edit(start=0, end=1, text=text)


def test_fixes_follow_one_another_until_nothing_is_left() -> None:
    outcome = mended({b"1": (line("A", "x=2", to("2")),), b"2": (line("B", "y=3", to("3")),)})
    assert (outcome.after, [item.code for item in outcome.fixed]) == (b"3", ["A", "B"])


def test_what_is_found_again_undone_or_worse_is_left() -> None:
    first = line("A", "x=2", to("2"))
    for then in (line("B", "x=1", None), line("C", "z=1", None, bad=True)):
        outcome = mended({b"1": (first,), b"2": (then,)})
        assert (outcome.after, outcome.fixed, len(outcome.left)) == (b"1", (), 1)
        assert then.code in outcome.left[0].reason
    back = mended({b"1": (first,), b"2": (line("B", "y=1", to("1")),)})
    assert (back.after, back.left[0].reason) == (b"2", "it would undo another fix")


def test_what_is_not_safe_or_has_no_fix_is_left_with_its_reason() -> None:
    found = {b"1": (line("A", "x=2", to("2"), safe=False), line("B", "y=1", None))}
    outcome = mended(found)
    assert (outcome.after, [item.line.code for item in outcome.left]) == (b"1", ["A", "B"])
    assert outcome.left[1].reason == "why"
    assert mended(found, unsafe=True).after == b"2"
