"""Judges one input: its findings, and what the project's settings and its own comments do to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tuner.cli import pipeline
from tuner.cli.finding_options import FindingOptions, words
from tuner.cli.fix_proposals import with_fixes
from tuner.cli.hardware import choose_card
from tuner.cli.messages import error_text
from tuner.cli.premises import Premises
from tuner.cli.project_settings import SettingsNamed, project_for, with_project_settings
from tuner.errors import Location, TunerError, cut
from tuner.evidence import Evidence
from tuner.files import STANDARD_INPUT
from tuner.findings import Severity
from tuner.inputs.secrets import without_secrets
from tuner.inputs.several import Input
from tuner.render.all_rules import known_rules
from tuner.render.checked.lines import checked
from tuner.render.consultation import Consultation
from tuner.render.terminal import plain
from tuner.review import budget
from tuner.review.excerpt import with_excerpts
from tuner.review.fixes.apply import DraftedFindings
from tuner.review.input_findings import FindingLine, InputFindings, InputProblem
from tuner.review.project.read import PlacedBudget, budgets_of, shown
from tuner.review.project.selection import ALL, Selection
from tuner.review.suppression.apply import Applied, without_ignored
from tuner.review.suppression.files import comments_of
from tuner.review.unshown import unshown_lines

if TYPE_CHECKING:
    from tuner.review.project.project import Project


class Judging(Struct, frozen=True, kw_only=True):
    """What the options say, the same for every input."""

    premises: Premises
    named: SettingsNamed = SettingsNamed()
    findings: FindingOptions = FindingOptions()
    fail_on: Severity | None = None


class JudgingOptions(Struct, frozen=True, kw_only=True):
    """What options and settings say of one input."""

    project: "Project | None"
    premises: Premises
    selection: Selection
    budgets: tuple[PlacedBudget, ...]


def judged(given: Input, judging: Judging) -> InputFindings:
    """One input with what is found in it, or with the message why it cannot be used."""
    return drafted(given, judging, None, proved=True).checked


def drafted(
    given: Input, judging: Judging, content: bytes | None, *, proved: bool = False
) -> DraftedFindings:
    """What is found in one input, with fixes that nobody has proved yet.

    Args:
        given: the input.
        judging: what the options say.
        content: stands in place of what the file has.
        proved: whether the fixes are proved all the same.
    """
    try:
        asked = asked_of(given, judging)
    except TunerError as error:  # not of the input: many have the same
        return DraftedFindings(checked=_unusable(given, error, error_text(error)))
    try:
        return _drafted(given, asked, judging, content, proved=proved)
    except TunerError as error:
        message = error_text(error)
        if not (given.pasted or given.config in str(error)):
            message = f"{cut(plain(without_secrets(given.config)))}: {message}"
        return DraftedFindings(checked=_unusable(given, error, message))


def _unusable(given: Input, error: TunerError, message: str) -> InputFindings:
    place = error.location or Location(source=given.config)
    return InputFindings(source=given.config, problem=InputProblem(message=message, location=place))


def asked_of(given: Input, judging: Judging) -> JudgingOptions:
    """What is asked of one input.

    Raises:
        InputError: something in the settings or the options cannot be used.
    """
    project = project_for(given.config, judging.named)
    premises = with_project_settings(judging.premises, project)
    if any(name == "gpu" for name, _place in premises.places):
        choose_card(premises)
    return JudgingOptions(
        project=project,
        premises=premises,
        selection=_selection(judging.findings, project),
        budgets=_budgets(judging.findings, project),
    )


def _drafted(
    given: Input, asked: JudgingOptions, judging: Judging, content: bytes | None, *, proved: bool
) -> DraftedFindings:
    """The findings of one input that are to be reported.

    Raises:
        TunerError: something in the input or the options cannot be used.
    """
    answer = pipeline.consult(given.config, given.words, asked.premises, block=False, content=content)
    found = reported(answer, given, asked, judging)
    launch = asked.premises.launch
    lines, file = with_fixes(found.lines, answer, given, launch=launch, content=content, proved=proved)
    unshown = unshown_lines(answer.given, answer.settings) if lines else frozenset()
    shown = with_excerpts(lines, answer.given, answer.settings, unshown)
    return DraftedFindings(checked=replace(found, lines=shown, unshown=unshown), file=file)


def reported(answer: Consultation, given: Input, asked: JudgingOptions, judging: Judging) -> InputFindings:
    """An answer's findings that are asked for and that no comment ignores, and what they are held against."""
    project, selection = asked.project, asked.selection
    found = checked(answer)
    listed = (*found.lines, *_over_budget(answer, given, asked.budgets))
    wanted = sorted((line for line in listed if selection.wants(line.finding)), key=lambda line: line.rank)
    applied = Applied(lines=tuple(wanted))
    if not judging.findings.no_ignores:
        applied = without_ignored(
            wanted,
            comments_of({answer.given.source: answer.given.text} if answer.given.text else {}),
            source=answer.given.source,
            known=known_rules(),
            selection=selection,
            require_reason=project is not None and bool(project.value("require_reason")),
        )
    baseline = None if project is None else project.path("baseline")
    fail_on = judging.fail_on or (None if project is None else project.value("fail_on"))
    return replace(
        found,
        lines=applied.lines,
        silenced=applied.silenced,
        left_out=len(listed) - len(wanted),
        fail_on=fail_on or found.fail_on,
        baseline="" if baseline is None else shown(baseline),
    )


def _over_budget(
    answer: Consultation, given: Input, budgets: tuple[PlacedBudget, ...]
) -> Iterator[FindingLine]:
    """What the job takes beyond its budgets."""
    source = answer.given.source
    file = None if given.pasted or given.config == STANDARD_INPUT else Path(source).absolute()
    for finding in budget.check(answer.advice, budgets, file):
        yield FindingLine(location=Location(source=source), finding=finding, overrides=())


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
