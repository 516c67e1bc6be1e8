"""``tuner check``: the same engine as ``advise``, one line per finding, for continuous integration."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tuner.cli import options
from tuner.cli.exit_codes import BAD_INPUT, FINDINGS
from tuner.cli.premises import Premises, with_premises
from tuner.language import _, ngettext

if TYPE_CHECKING:
    from tuner.cli.hardware import Card
    from tuner.render.concise import Line
    from tuner.render.report import CheckedGpu

EXAMPLES = options.examples(
    "tuner check configs/*.yaml --gpu h100-sxm",
    "tuner check config.yaml --gpu a100-80g --fail-on error",
    "tuner check config.yaml --gpu h200 --output-format json",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="check", help=options.summary(check), epilog=EXAMPLES)(with_premises(check))


def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help=_("verl configurations in YAML."))],
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
    from tuner.render.concise import concise
    from tuner.render.terminal import Terminal, plain, write

    card = choose_card(premises)
    listed: list[Line] = []
    unreadable: list[str] = []
    for file in files:
        outcome = _outcome(file, premises)
        if isinstance(outcome, str):
            unreadable.append(outcome)
            write(sys.stderr, _("error: {outcome}").format(outcome=plain(outcome)))
        else:
            listed += outcome
    if output_format == "json":
        from tuner.render.json import check_json

        write(sys.stdout, check_json(listed, unreadable, card=_card_report(card)))
    elif listed:
        terminal = Terminal.of(sys.stdout, color)
        write(sys.stdout, "\n".join(concise(line, terminal) for line in listed))
    write(sys.stderr, _count(listed, card, files=len(files), unreadable=len(unreadable)))
    if unreadable:
        raise typer.Exit(BAD_INPUT)
    if any(line.at_least(Severity(fail_on)) for line in listed):
        raise typer.Exit(FINDINGS)


def _outcome(file: str, premises: Premises) -> "list[Line] | str":
    """The findings of one file, or the message why it cannot be used; the other files are still checked."""
    from tuner.cli.pipeline import consult
    from tuner.errors import TunerError
    from tuner.render.concise import lines

    if "=" in file and not Path(file).exists():
        return _(
            "{file}: an override, where files are checked as they are; tuner advise takes overrides"
        ).format(file=file)
    try:
        return list(lines(consult(file, (), premises)))
    except TunerError as error:
        return str(error) if file in str(error) else f"{file}: {error}"


def _card_report(card: "Card") -> "CheckedGpu":
    from tuner.render.report import CheckedGpu

    return CheckedGpu(
        name=card.gpu.name, memory_bytes=card.gpu.capacity_bytes, reason=card.reason, assumed=card.assumed
    )


def _count(lines: "list[Line]", card: "Card", *, files: int, unreadable: int) -> str:
    from tuner.findings import Severity

    counts = {severity: sum(line.finding.severity is severity for line in lines) for severity in Severity}
    text = _(", ").join(f"{count} {_(severity.value)}" for severity, count in counts.items() if count)
    checked = ngettext("{files} file checked", "{files} files checked", files).format(files=files)
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
