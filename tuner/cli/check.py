"""``tuner check``: the same engine as ``advise``, one line per finding, for continuous integration."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tuner.cli import options
from tuner.cli.exit_codes import BAD_INPUT, FINDINGS
from tuner.cli.premises import Premises, with_premises
from tuner.language import _, ngettext

if TYPE_CHECKING:
    from tuner.cli.hardware import Card
    from tuner.inputs.several import Input
    from tuner.render.report import CheckedGpu
    from tuner.review.checked import Checked, Review

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
    fail_on: Annotated[
        options.SeverityName,
        typer.Option("--fail-on", help=_("Least severity of a finding that makes the exit code 1.")),
    ] = "warning",
    color: options.Colour = "auto",
    verbose: options.Verbose = False,
) -> None:
    """Judge configurations, one line per finding.

    The same engine as advise, for continuous integration: exit code 1 when a finding is severe enough.
    """
    from tuner.cli.hardware import choose_card
    from tuner.findings import Severity
    from tuner.inputs.several import separated
    from tuner.render.checked.concise import concise
    from tuner.render.terminal import Terminal, write
    from tuner.review.checked import Review

    options.refuse_misspelled(files, with_premises(check))
    card = choose_card(premises)
    inputs = separated(files)
    review = Review(
        inputs=tuple(judged(given, premises) for given in inputs),
        pasted=any(given.pasted for given in inputs),
    )
    for problem in review.problems:
        write(sys.stderr, _("error: {outcome}").format(outcome=problem.message))
    if output_format == "json":
        from tuner.render.json import check_json

        unreadable = [problem.message for problem in review.problems]
        write(sys.stdout, check_json(review.lines, unreadable, card=_card_report(card)))
    elif review.lines:
        write(sys.stdout, concise(review, Terminal.of(sys.stdout, color)))
    write(sys.stderr, _count(review, card))
    if review.problems:
        raise typer.Exit(BAD_INPUT)
    if review.fails(Severity(fail_on)):
        raise typer.Exit(FINDINGS)


def judged(given: "Input", premises: Premises) -> "Checked":
    """One input with what is found in it, or with the message why it cannot be used."""
    from tuner.cli.messages import cut, told
    from tuner.cli.pipeline import consult
    from tuner.errors import Location, TunerError
    from tuner.inputs.secrets import without_secrets
    from tuner.render.checked.lines import checked
    from tuner.render.terminal import plain
    from tuner.review.checked import Checked, Problem

    try:
        return checked(consult(given.config, given.words, premises))
    except TunerError as error:
        message = told(error)
        if not (given.pasted or given.config in str(error)):
            message = f"{cut(plain(without_secrets(given.config)))}: {message}"
        place = error.location or Location(source=given.config)
        return Checked(source=given.config, problem=Problem(message=message, location=place))


def _card_report(card: "Card") -> "CheckedGpu":
    from tuner.render.report import CheckedGpu

    return CheckedGpu(
        name=card.gpu.name, memory_bytes=card.gpu.capacity_bytes, reason=card.reason, assumed=card.assumed
    )


def _count(review: "Review", card: "Card") -> str:
    text = _(", ").join(
        _("{count} {severity}").format(count=count, severity=_(severity.value))
        for severity, count in review.counts.items()
    )
    files, unreadable = len(review.inputs), len(review.problems)
    checked = ngettext("{files} file checked", "{files} files checked", files).format(files=files)
    if review.pasted:
        checked = _("the command is checked")
    if unreadable:
        checked = _("{checked}, {unreadable} unreadable").format(checked=checked, unreadable=unreadable)
    return _("{checked}: {findings}; {judged_for}").format(
        checked=checked, findings=text or _("no findings"), judged_for=_judged_for(card)
    )


def _judged_for(card: "Card") -> str:
    from tuner.render.numbers import gib

    gpu = _("{gpu} with {capacity}").format(gpu=card.gpu.name, capacity=gib(card.gpu.capacity_bytes))
    if card.assumed:
        return _("for an {gpu}, since no GPU was named and none was found: give --gpu NAME").format(gpu=gpu)
    return _("for {gpu} ({reason})").format(gpu=gpu, reason=card.reason)
