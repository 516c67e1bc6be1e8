"""Judges one input: its findings, and what the project's settings and its own comments do to them."""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tuner.cli.finding_options import FindingOptions, words
from tuner.cli.hardware import Card
from tuner.cli.pipeline import consult
from tuner.cli.premises import Premises
from tuner.cli.project_settings import SettingsNamed, project_for, settled
from tuner.errors import Location
from tuner.evidence import Evidence
from tuner.findings import Severity
from tuner.inputs.several import Input
from tuner.render.all_rules import known_rules
from tuner.render.answer import Answer
from tuner.render.concise import lines, top_of
from tuner.review import budget
from tuner.review.checked import Line
from tuner.review.project.read import PlacedBudget, budgets_of
from tuner.review.project.selection import ALL, Selection
from tuner.review.suppression.apply import Applied, without_ignored
from tuner.review.suppression.files import comments_of

if TYPE_CHECKING:
    from tuner.review.project.project import Project


class Judging(Struct, frozen=True, kw_only=True):
    """What the options say, the same for every input."""

    premises: Premises
    named: SettingsNamed = SettingsNamed()
    findings: FindingOptions = FindingOptions()
    fail_on: Severity | None = None


class Judged(Struct, frozen=True, kw_only=True):
    """One input with its findings."""

    source: str
    applied: Applied
    unwanted: int  # findings that the selection leaves out
    fail_on: Severity
    baseline: Path | None  # that the settings name
    card: Card  # it was judged for

    @property
    def lines(self) -> tuple[Line, ...]:
        """The findings that are to be reported."""
        return self.applied.lines


def judge(given: Input, judging: Judging) -> Judged:
    """The findings of one input.

    Raises:
        TunerError: something in the input, the settings or the options cannot be used.
    """
    project = project_for(given.config, judging.named)
    selection = _selection(judging.findings, project)
    answer = consult(given.config, given.words, settled(judging.premises, project))
    listed = (*lines(answer), *_over_budget(answer, given, judging, project))
    wanted = sorted((line for line in listed if selection.wants(line.finding)), key=lambda line: line.rank)
    applied = Applied(lines=tuple(wanted))
    if not judging.findings.no_ignores:
        texts = {answer.given.source: answer.given.text} if answer.given.text else {}
        applied = without_ignored(
            wanted,
            comments_of(texts),
            source=answer.given.source,
            known=known_rules(),
            selection=selection,
            require_reason=False if project is None else project.value("require_reason", False),
        )
    fail_on = None if project is None else project.value("fail_on")
    return Judged(
        source=answer.given.source,
        applied=applied,
        unwanted=len(listed) - len(wanted),
        fail_on=judging.fail_on or fail_on or Severity.WARNING,
        baseline=None if project is None else project.path("baseline"),
        card=Card(
            gpu=answer.advice.workload.cluster.gpu, reason=answer.gpu_reason, assumed=answer.gpu_assumed
        ),
    )


def _over_budget(
    answer: Answer, given: Input, judging: Judging, project: "Project | None"
) -> tuple[Line, ...]:
    """What the job takes beyond its budgets."""
    budgets = _budgets(judging.findings, project)
    if not budgets:
        return ()
    file = None if given.pasted or given.config == "-" else Path(answer.given.source).absolute()
    return tuple(
        Line(location=top_of(answer), finding=finding, overrides=())
        for finding in budget.check(answer.advice, budgets, file)
    )


def _budgets(options: FindingOptions, project: "Project | None") -> tuple[PlacedBudget, ...]:
    if options.budget is not None:
        return budgets_of(Path(options.budget).absolute())
    return () if project is None else project.budgets


def _selection(options: FindingOptions, project: "Project | None") -> Selection:
    """Which findings are wanted: by the options, where they say nothing by the settings."""
    select = _rules("select", words(options.select), project)
    ignore = _rules("ignore", words(options.ignore), project)
    least = options.min_evidence or (None if project is None else project.value("min_evidence"))
    return Selection(
        select=(ALL,) if select is None else select,
        ignore=ignore or (),
        min_evidence=least or Evidence.HEURISTIC,
    )


def _rules(name: str, given: tuple[str, ...] | None, project: "Project | None") -> tuple[str, ...] | None:
    """The codes and groups of an option, else of the setting of its name; None where nobody says any."""
    if given is not None:
        return known_rules().resolved(given, Location(source=f"--{name}"))
    said = None if project is None else project.said(name)
    return None if said is None else known_rules().resolved(said.value, said.place)
