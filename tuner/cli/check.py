"""``tuner check``: the same engine as ``advise``, one line per finding, for continuous integration."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tuner.cli import options
from tuner.cli.exit_codes import BAD_INPUT, FINDINGS
from tuner.cli.premises import Premises, with_premises
from tuner.language import _, ngettext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.cli.hardware import Card
    from tuner.inputs.several import Input
    from tuner.render.concise import Line
    from tuner.render.report import CheckedGpu

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
    from tuner.render.concise import concise
    from tuner.render.terminal import Terminal, write

    options.refuse_misspelled(files, with_premises(check))
    card = choose_card(premises)
    listed: list[Line] = []
    unreadable: list[str] = []
    inputs = separated(files)
    for given in inputs:
        outcome = _outcome(given, premises)
        if isinstance(outcome, str):
            unreadable.append(outcome)
            write(sys.stderr, _("error: {outcome}").format(outcome=outcome))
        else:
            listed += outcome
    if output_format == "json":
        from tuner.render.json import check_json

        write(sys.stdout, check_json(listed, unreadable, card=_card_report(card)))
    elif listed:
        terminal = Terminal.of(sys.stdout, color)
        write(sys.stdout, "\n".join(concise(line, terminal) for line in listed))
    write(sys.stderr, _count(listed, card, inputs=inputs, unreadable=len(unreadable)))
    if unreadable:
        raise typer.Exit(BAD_INPUT)
    if any(line.at_least(Severity(fail_on)) for line in listed):
        raise typer.Exit(FINDINGS)


def _outcome(given: "Input", premises: Premises) -> "list[Line] | str":
    """The findings of one input, or the message why it cannot be used; the others are still checked."""
    from tuner.cli.messages import cut, told
    from tuner.cli.pipeline import consult
    from tuner.errors import TunerError
    from tuner.inputs.secrets import without_secrets
    from tuner.render.concise import lines
    from tuner.render.terminal import plain

    try:
        return list(lines(consult(given.config, given.words, premises, block=False)))
    except TunerError as error:
        message = told(error)
        if given.pasted or given.config in str(error):
            return message
        return f"{cut(plain(without_secrets(given.config)))}: {message}"


def _card_report(card: "Card") -> "CheckedGpu":
    from tuner.render.report import CheckedGpu

    return CheckedGpu(
        name=card.gpu.name, memory_bytes=card.gpu.capacity_bytes, reason=card.reason, assumed=card.assumed
    )


def _count(lines: "list[Line]", card: "Card", *, inputs: "Sequence[Input]", unreadable: int) -> str:
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
    return _("{checked}: {findings}; {judged_for}").format(
        checked=checked, findings=text or _("no findings"), judged_for=_judged_for(card)
    )


def _judged_for(card: "Card") -> str:
    from tuner.render.numbers import gib

    gpu = _("{gpu} with {capacity}").format(gpu=card.gpu.name, capacity=gib(card.gpu.capacity_bytes))
    if card.assumed:
        return _("for an {gpu}, since no GPU was named and none was found: give --gpu NAME").format(gpu=gpu)
    return _("for {gpu} ({reason})").format(gpu=gpu, reason=card.reason)
