"""Fixes proved together are those that each would have alone; a file is read once for all of them."""

from pathlib import Path

import pytest

from tests.review.fixes.test_splices import CONFIG, SCRIPT
from tuner.errors import Location
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.script import Script
from tuner.review.fixes import script as script_edits
from tuner.review.fixes.apply import DraftedFindings
from tuner.review.fixes.edits import CannotEditError
from tuner.review.fixes.plan import ScriptFile, YamlFile, with_fixes
from tuner.review.fixes.script import LaunchScript
from tuner.review.input_findings import FindingLine, InputFindings

RULE = Rule(
    code="A",
    name="a",
    summary="",
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)
OF_SCRIPT = (
    ("actor.x=9",),
    ("actor.l=[3]",),
    ("~actor.m",),
    ("actor.x=10",),  # another value for a key of the first one
    ("+actor.new=1", "trainer.seed=3"),
    ("+actor.also=2",),  # behind the same word
    ("actor.n=2",),  # the script computes it
    (),
)
OF_YAML = (
    ("a.b.c=r",),
    ("++new.section.one=1",),
    ("++new.section.two=2",),  # together they would write the section twice
    ("l.p=2",),
    ("y=3",),  # an alias
    ("~a.b.on",),
    ("a.b={}",),
)


def lines(*overrides: tuple[str, ...]) -> list[FindingLine]:
    finding = Finding(rule=RULE, message="", severity=RULE.severity, evidence=Evidence.EXACT)
    return [FindingLine(location=Location(source="a"), finding=finding, overrides=each) for each in overrides]


def script() -> ScriptFile:
    return ScriptFile(script=LaunchScript(path=Path("run.sh"), data=SCRIPT.encode()))


def fixed(
    file: YamlFile | ScriptFile, overrides: tuple[tuple[str, ...], ...], *, proved: bool = True
) -> tuple[FindingLine, ...]:
    found = lines(*overrides)
    return with_fixes(found, file, source="a", words=(), safe={("A", overrides[0])}, proved=proved)


@pytest.mark.parametrize(
    ("file", "overrides"),
    [(script(), OF_SCRIPT), (YamlFile(data=CONFIG.encode()), OF_YAML)],
    ids=["script", "yaml"],
)
def test_fixes_together_are_those_of_each_alone(
    file: YamlFile | ScriptFile, overrides: tuple[tuple[str, ...], ...]
) -> None:
    together, drafted = (fixed(file, overrides, proved=proved) for proved in (True, False))
    alone = DraftedFindings(checked=InputFindings(source="a", lines=drafted), file=file).proved
    assert together == alone.lines
    assert sum(line.fix is not None for line in together) >= 4
    assert any(line.no_fix for line in together)


def test_a_script_is_read_once_for_all_fixes_that_touch_different_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[bytes] = []
    kept = script_edits.read_script

    def counted(path: Path, content: bytes, arguments: tuple[str, ...]) -> Script:
        read.append(content)
        return kept(path, content, arguments)

    monkeypatch.setattr(script_edits, "read_script", counted)
    fixed(script(), OF_SCRIPT)
    assert len(read) == 3  # as it is, with all of them but the second value of one key, and with that one


def test_a_fix_that_is_read_otherwise_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    prove = ScriptFile.prove

    def refusing(self: ScriptFile, edits: object, changes: object) -> None:
        if "9" in str(edits):
            raise CannotEditError("not so")
        prove(self, edits, changes)  # type: ignore[arg-type]

    monkeypatch.setattr(ScriptFile, "prove", refusing)
    done = fixed(script(), (("actor.x=9",), ("actor.l=[3]",)))
    assert [(line.fix is None, line.no_fix) for line in done] == [(True, "not so"), (False, "")]
