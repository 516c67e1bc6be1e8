"""``tuner check``: the same engine as ``advise``, one line per finding, for continuous integration."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tuner.cli import options
from tuner.cli.exit_codes import BAD_INPUT, FINDINGS
from tuner.cli.finding_options import FindingOptions
from tuner.cli.fix_options import FixOptions
from tuner.cli.premises import Premises, with_premises
from tuner.cli.project_settings import SettingsNamed
from tuner.language import _, ngettext

if TYPE_CHECKING:
    from tuner.cli.hardware import Card
    from tuner.render.report import CheckedGpu
    from tuner.review.checked import Review

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
    fixing: FixOptions,
    fail_on: Annotated[
        options.SeverityName | None,
        typer.Option(
            "--fail-on",
            help=_(
                "Least severity of a finding that makes the exit code 1; what the settings say, else warning."
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
    from tuner.cli.baselines import beside_baselines, fixed_lines, write_baseline
    from tuner.cli.hardware import choose_card
    from tuner.cli.judging import Judging, judged
    from tuner.findings import Severity
    from tuner.inputs.several import separated
    from tuner.render.checked.concise import concise
    from tuner.render.terminal import Terminal, write
    from tuner.review.checked import Review

    options.refuse_misspelled(files, with_premises(check))
    card = choose_card(premises)
    judging = Judging(
        premises=premises,
        named=named,
        findings=findings,
        fail_on=None if fail_on is None else Severity(fail_on),
    )
    inputs = separated(files)
    if fixing.wanted:
        from tuner.cli.fixing import mended

        mending = mended(inputs, lambda given, content: judged(given, judging, content), fixing)
        each = mending.checked
    else:
        mending, each = None, tuple(judged(given, judging) for given in inputs)
    review = Review(
        inputs=each,
        pasted=any(given.pasted for given in inputs),
    )
    # One of the settings concerns many inputs alike.
    for message in dict.fromkeys(problem.message for problem in review.problems):
        write(sys.stderr, _("error: {outcome}").format(outcome=message))
    if findings.write_baseline is not None:
        write(sys.stderr, write_baseline(Path(findings.write_baseline), review))
        raise typer.Exit(BAD_INPUT if review.problems else 0)
    if mending is not None and fixing.diff:
        changed = mending.show_diff()
        raise typer.Exit(BAD_INPUT if review.problems else FINDINGS if changed else 0)
    review = beside_baselines(review, findings)
    if output_format == "json":
        from tuner.render.json import check_json

        unreadable = [problem.message for problem in review.problems]
        write(sys.stdout, check_json(review.lines, unreadable, card=_cards(review, card)[0]))
    elif review.lines:
        write(sys.stdout, concise(review, Terminal.of(sys.stdout, color)))
    for text in fixed_lines(review.baselines):
        write(sys.stderr, text)
    if mending is not None:
        mending.tell()
    write(sys.stderr, _count(review, card))
    if review.problems:
        raise typer.Exit(BAD_INPUT)
    if review.fails:
        raise typer.Exit(FINDINGS)


def _cards(review: "Review", card: "Card") -> "list[CheckedGpu]":
    """The cards that inputs were judged for; the one of the options where none could be judged."""
    from tuner.render.report import CheckedGpu

    of_inputs = [
        CheckedGpu(name=by.gpu, memory_bytes=by.gpu_bytes, reason=by.gpu_reason, assumed=by.gpu_assumed)
        for by in dict.fromkeys(checked.judged_for for checked in review.inputs)
        if by is not None
    ]
    named = CheckedGpu(
        name=card.gpu.name, memory_bytes=card.gpu.capacity_bytes, reason=card.reason, assumed=card.assumed
    )
    return list({gpu.name: gpu for gpu in reversed(of_inputs)}.values())[::-1] or [named]


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
        checked=checked,
        findings=_with_rest(text or _("no findings"), review),
        judged_for=_(", ").join(map(_judged_for, _cards(review, card))),
    )


def _with_rest(findings: str, review: "Review") -> str:
    """The number of findings, with what is not among them."""
    from tuner.cli.baselines import in_words
    from tuner.review.checked import SilencedBy

    by_comments = sum(
        silenced.by is SilencedBy.COMMENT for checked in review.inputs for silenced in checked.silenced
    )
    left_out = sum(checked.left_out for checked in review.inputs)
    words = [
        _("{count} ignored by comments").format(count=by_comments) if by_comments else "",
        _("{count} not asked for").format(count=left_out) if left_out else "",
        in_words(review.baselines),
    ]
    rest = _(", ").join(filter(None, words))
    return _("{findings} ({rest})").format(findings=findings, rest=rest) if rest else findings


def _judged_for(card: "CheckedGpu") -> str:
    from tuner.render.numbers import gib

    gpu = _("{gpu} with {capacity}").format(gpu=card.name, capacity=gib(card.memory_bytes))
    if card.assumed:
        return _("for an {gpu}, since no GPU was named and none was found: give --gpu NAME").format(gpu=gpu)
    return _("for {gpu} ({reason})").format(gpu=gpu, reason=card.reason)
