"""``tuner check``: the same engine as ``advise``, one line per finding, for continuous integration."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tuner.cli import options
from tuner.cli.exit_codes import BAD_INPUT, FINDINGS
from tuner.cli.finding_options import FindingOptions
from tuner.cli.premises import Premises, with_premises
from tuner.cli.project_settings import SettingsNamed
from tuner.language import _, ngettext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.cli.baselines import Against
    from tuner.cli.hardware import Card
    from tuner.cli.judging import Judged, Judging
    from tuner.errors import TunerError
    from tuner.inputs.several import Input
    from tuner.render.report import CheckedGpu
    from tuner.review.checked import Line

EXAMPLES = options.examples(
    "tuner check configs/*.yaml --gpu h100-sxm",
    "tuner check config.yaml --gpu a100-80g --fail-on error",
    "tuner check config.yaml --gpu h200 --output-format json",
    "tuner check run.sh RESPONSES=8 --gpu 8xh100-sxm",
    "tuner check a.yaml b.yaml actor_rollout_ref.rollout.n=8 --gpu h100-sxm",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="check", help=options.summary(check), epilog=EXAMPLES, context_settings=options.PASTED)(
        with_premises(check)
    )


def check(
    files: options.Inputs,
    *,
    premises: Premises,
    output_format: Annotated[
        Literal["concise", "json"],
        typer.Option("--output-format", "-f", help=_("One line per finding, or JSON.")),
    ] = "concise",
    named: SettingsNamed,
    findings: FindingOptions,
    fail_on: Annotated[
        options.SeverityName | None,
        typer.Option(
            "--fail-on",
            help=_(
                "Least severity of a finding that makes the exit code 1; warning, or what the settings say."
            ),
            show_default=False,
        ),
    ] = None,
    color: options.Colour = "auto",
    verbose: options.Verbose = False,
) -> None:
    """Judge configurations, one line per finding.

    The same engine as advise, for continuous integration: exit code 1 when a finding is severe enough.
    """
    from tuner.cli.baselines import against_baselines, fixed_lines, write_baseline
    from tuner.cli.hardware import choose_card
    from tuner.cli.judging import Judging
    from tuner.findings import Severity
    from tuner.inputs.several import separated
    from tuner.render.concise import concise
    from tuner.render.terminal import Terminal, write

    options.refuse_misspelled(files, with_premises(check))
    card = choose_card(premises)
    judging = Judging(
        premises=premises,
        named=named,
        findings=findings,
        fail_on=None if fail_on is None else Severity(fail_on),
    )
    inputs = separated(files)
    judged, unreadable = _judged(inputs, judging)
    if findings.write_baseline is not None:
        write_baseline(Path(findings.write_baseline), judged)
        raise typer.Exit(BAD_INPUT if unreadable else 0)
    against = against_baselines(judged, findings)
    listed = [line for lines in against.new for line in lines]
    cards = list(dict.fromkeys(one.card for one in judged)) or [card]
    if output_format == "json":
        from tuner.render.json import check_json

        write(sys.stdout, check_json(listed, unreadable, card=_card_report(cards[0])))
    elif listed:
        terminal = Terminal.of(sys.stdout, color)
        write(sys.stdout, "\n".join(concise(line, terminal) for line in listed))
    for text in fixed_lines(against, pruned=findings.prune_baseline):
        write(sys.stderr, text)
    write(
        sys.stderr,
        _count(listed, cards, inputs=inputs, unreadable=len(unreadable), rest=_rest(judged, against)),
    )
    if unreadable:
        raise typer.Exit(BAD_INPUT)
    if any(
        line.at_least(one.fail_on) for one, lines in zip(judged, against.new, strict=True) for line in lines
    ):
        raise typer.Exit(FINDINGS)


def _judged(inputs: "Sequence[Input]", judging: "Judging") -> "tuple[list[Judged], list[str]]":
    """All inputs that can be used, and the messages why the others cannot; these have been said."""
    from tuner.render.terminal import write

    judged: list[Judged] = []
    unreadable: list[str] = []
    for given in inputs:
        outcome = _outcome(given, judging)
        if isinstance(outcome, str):
            if outcome not in unreadable:  # of several inputs
                write(sys.stderr, _("error: {outcome}").format(outcome=outcome))
            unreadable.append(outcome)
        else:
            judged.append(outcome)
    return judged, unreadable


def _outcome(given: "Input", judging: "Judging") -> "Judged | str":
    """The findings of one input, or the message why it cannot be used; the others are still checked."""
    from tuner.cli.judging import judge
    from tuner.cli.messages import cut, told
    from tuner.errors import TunerError
    from tuner.inputs.secrets import without_secrets
    from tuner.render.terminal import plain

    try:
        return judge(given, judging)
    except TunerError as error:
        message = told(error)
        if given.pasted or given.config in str(error) or _is_of_settings(error):
            return message
        return f"{cut(plain(without_secrets(given.config)))}: {message}"


def _is_of_settings(error: "TunerError") -> bool:
    """Whether an error lies in a settings file or an option, and so concerns many inputs alike."""
    return error.location is not None and (
        error.location.source.endswith(".toml") or error.location.source.startswith("--")
    )


def _rest(judged: "Sequence[Judged]", against: "Against") -> list[str]:
    """What is not among the findings, in words."""
    ignored = sum(len(one.applied.ignored) for one in judged)
    unwanted = sum(one.unwanted for one in judged)
    words = []
    if ignored:
        words.append(_("{count} ignored by comments").format(count=ignored))
    if unwanted:
        words.append(_("{count} not selected").format(count=unwanted))
    return [*words, *filter(None, [against.words()])]


def _card_report(card: "Card") -> "CheckedGpu":
    from tuner.render.report import CheckedGpu

    return CheckedGpu(
        name=card.gpu.name, memory_bytes=card.gpu.capacity_bytes, reason=card.reason, assumed=card.assumed
    )


def _count(
    lines: "list[Line]", cards: "list[Card]", *, inputs: "Sequence[Input]", unreadable: int, rest: list[str]
) -> str:
    from tuner.findings import Severity

    counts = {severity: sum(line.finding.severity is severity for line in lines) for severity in Severity}
    text = _(", ").join(
        _("{count} {severity}").format(count=count, severity=_(severity.value))
        for severity, count in counts.items()
        if count
    )
    files = len(inputs)
    checked = ngettext("{files} file checked", "{files} files checked", files).format(files=files)
    if inputs[0].pasted:
        checked = _("the command is checked")
    if unreadable:
        checked = _("{checked}, {unreadable} unreadable").format(checked=checked, unreadable=unreadable)
    findings = text or _("no findings")
    if rest:
        findings = _("{findings} ({rest})").format(findings=findings, rest=_(", ").join(rest))
    return _("{checked}: {findings}; {judged_for}").format(
        checked=checked, findings=findings, judged_for=_(", ").join(map(_judged_for, cards))
    )


def _judged_for(card: "Card") -> str:
    from tuner.render.numbers import gib

    gpu = _("{gpu} with {capacity}").format(gpu=card.gpu.name, capacity=gib(card.gpu.capacity_bytes))
    if card.assumed:
        return _("for an {gpu}, since no GPU was named and none was found: give --gpu NAME").format(gpu=gpu)
    return _("for {gpu} ({reason})").format(gpu=gpu, reason=card.reason)
