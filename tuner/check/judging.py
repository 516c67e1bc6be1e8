"""Judges inputs by what options and settings say of each; one that cannot be used becomes a message."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tuner.check.baselines import UnknownLines
from tuner.check.judge import FindingSelection, judge, reported
from tuner.check.project_settings import (
    FindingOptions,
    SettingsNamed,
    project_for,
    with_project_settings,
    words,
)
from tuner.consultation.cluster import choose_card
from tuner.consultation.premises import Premises
from tuner.consultation.result import Consultation
from tuner.errors import Location, TunerError, cut
from tuner.evidence import Evidence
from tuner.files import STANDARD_INPUT, is_there
from tuner.findings import Severity
from tuner.inputs.named_inputs import Input
from tuner.inputs.secrets import without_secrets
from tuner.render.all_rules import known_rules
from tuner.render.error_text import error_text
from tuner.render.terminal import plain
from tuner.review.fixes.apply import DraftedFindings
from tuner.review.input_findings import InputFindings, InputProblem
from tuner.review.project.read import PlacedBudget, budgets_of, shown
from tuner.review.project.selection import ALL, Selection

if TYPE_CHECKING:
    from tuner.review.project.project import Project


class Judging(Struct, frozen=True, kw_only=True):
    """What the options say, the same for every input."""

    premises: Premises
    named: SettingsNamed = SettingsNamed()
    findings: FindingOptions = FindingOptions()
    fail_on: Severity | None = None


def judge_input(given: Input, judging: Judging) -> InputFindings:
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
        premises, wanted = asked_of(given, judging)
    except TunerError as error:  # not of the input: many have the same
        return DraftedFindings(checked=_unusable(given, error, error_text(error)))
    try:
        return judge(given, premises, wanted, content, proved=proved)
    except TunerError as error:
        message = error_text(error)
        if not (given.pasted or given.config in str(error)):
            message = f"{cut(plain(without_secrets(given.config)))}: {message}"
        return DraftedFindings(checked=_unusable(given, error, message))


def _unusable(given: Input, error: TunerError, message: str) -> InputFindings:
    place = error.location or Location(source=given.config)
    return InputFindings(source=given.config, problem=InputProblem(message=message, location=place))


def asked_of(given: Input, judging: Judging) -> tuple[Premises, FindingSelection]:
    """What options and settings say of one input: its premises, and which findings are wanted.

    Raises:
        InputError: something in the settings or the options cannot be used.
    """
    project = project_for(given.config, judging.named)
    premises = with_project_settings(judging.premises, project)
    if any(name in ("gpu", "gpu_memory") for name, _place in premises.places):
        choose_card(premises)
    baseline = None if project is None else project.path("baseline")
    return premises, FindingSelection(
        selection=_selection(judging.findings, project),
        budgets=_budgets(judging.findings, project),
        comments=not judging.findings.no_ignores,
        reasons=project is not None and bool(project.value("require_reason")),
        fail_on=judging.fail_on or (None if project is None else project.value("fail_on")),
        baseline="" if baseline is None else shown(baseline),
    )


def _budgets(options: FindingOptions, project: "Project | None") -> tuple[PlacedBudget, ...]:
    """The budgets of the option, where it says nothing those of the settings."""
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
    setting = None if project is None else project.setting(name)
    return None if setting is None else known_rules().resolved(setting.value, setting.place)


def fails(
    answer: Consultation,
    config: str,
    words: Sequence[str],
    premises: Premises,
    named: SettingsNamed,
    severity: Severity,
) -> bool:
    """Whether a finding is as bad, that the settings ask for and neither a comment nor a baseline accepts.

    Args:
        answer: what was found.
        config: the input as it was named.
        words: what followed it.
        premises: what the options and the settings say.
        named: what the options say of settings.
        severity: the least that counts.

    Raises:
        InputError: something in the settings, or the baseline that they name, cannot be used.
    """
    pasted = config != STANDARD_INPUT and not is_there(config)
    given = Input(config=config, words=tuple(words), pasted=pasted)
    judging = Judging(premises=premises, named=named, fail_on=severity)
    _premises, wanted = asked_of(given, judging)
    findings = reported(answer, given, wanted)
    return any(line.at_least(severity) for line in UnknownLines(judging.findings)(findings))
