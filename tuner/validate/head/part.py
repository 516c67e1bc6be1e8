"""The output-head part: every implementation at this model's sizes, its peak beside the memory model's."""

from collections.abc import Sequence

from tuner.language import _
from tuner.validate.children.call import Failed
from tuner.validate.children.servers import ServedFunction
from tuner.validate.head.figures import measurements
from tuner.validate.head.settings import (
    HeadFigures,
    HeadUse,
    HeadWork,
    log_prob_tokens,
    update_shape,
)
from tuner.validate.head.verdicts import judge_heads
from tuner.validate.session import CALL_SHARE, Options, OutOfBudgetError, Planned, Session, Subject
from tuner.workload import HeadKind

WORKER = ServedFunction.in_package(__package__, "worker.measure", "measure")
WORKERS: tuple[ServedFunction, ...] = (WORKER,)
_EXPECTED_S = 25.0  # kernels of all implementations are compiled
_CPU_EXPECTED_S = 40.0  # Triton's interpreter


def plan(subject: Subject, options: Options) -> tuple[Planned, ...]:
    """One process that runs all of them."""
    if options.device == "cpu":
        return (
            Planned(title=_("output head: every implementation on a tiny shape"), seconds=_CPU_EXPECTED_S),
        )
    shape = update_shape(subject.workload)
    title = _("output head: {tokens:,} tokens, hidden {hidden:,}, vocabulary {vocab:,}").format(
        tokens=shape.tokens, hidden=shape.hidden, vocab=shape.vocab
    )
    return (Planned(title=title, seconds=_EXPECTED_S),)


def run(session: Session) -> None:
    """Measure, compare with the memory model, judge what changes the head."""
    workload = session.subject.workload
    (planned,) = plan(session.subject, session.options)
    work = HeadWork(
        shape=update_shape(workload),
        forward_tokens=log_prob_tokens(workload),
        dtype=workload.actor.head.logits_dtype,
        wanted=wanted_ways(session.subject),
        seconds=CALL_SHARE * session.left_s,
    )
    expected = min(planned.seconds, session.left_s)  # it ends by itself, with fewer implementations
    figures = session.call(WORKER, work, title=planned.title, expected_s=expected)
    if isinstance(figures, Failed):
        session.note(_("Nothing was measured of the output head: {figures}.").format(figures=figures.message))
        return
    _note(session, figures, work)
    for measurement in measurements(figures, work, workload):
        session.add(measurement)
    for judged in judge_heads(session.subject, figures, work):
        session.judge(judged)
    if figures.left_out:
        raise OutOfBudgetError(_("no time for {shortened}").format(shortened=_shortened(figures.left_out)))


def _shortened(names: Sequence[str]) -> str:
    """The first two, and how many more; names have commas."""
    shown = "; ".join(names[:2])
    return (
        shown if len(names) <= 2 else _("{shown}; and {names} more").format(shown=shown, names=len(names) - 2)
    )


def wanted_ways(subject: Subject) -> tuple[HeadUse, ...]:
    """What is configured, then what recommendations propose."""
    heads = [subject.workload.actor.head]
    heads += [
        recommendation.finding.proposal.actor.head
        for recommendation in subject.advice.recommendations
        if recommendation.finding.proposal is not None
    ]
    actor = subject.workload.actor
    passes = [one_pass for one_pass in (actor.update, actor.log_prob) if one_pass is not None]
    ways = [HeadUse.of(head, entropy=one_pass.entropy) for head in heads for one_pass in passes]
    return tuple(dict.fromkeys(way for way in ways if way.head.kind is not HeadKind.VALUE))


def _note(session: Session, figures: HeadFigures, work: HeadWork) -> None:
    if session.options.device == "cpu":
        shape = figures.shape
        session.note(
            _(
                "On a CPU the output head is checked with {tokens} tokens, hidden {hidden} and "
                "vocabulary {vocab} in {dtype}: right or wrong, no bytes and no seconds."
            ).format(tokens=shape.tokens, hidden=shape.hidden, vocab=shape.vocab, dtype=figures.dtype)
        )
    missing = [implementation for implementation in figures.found if implementation.missing]
    for implementation in missing:
        session.note(
            _("Output head, {implementation}: not measured ({missing}).").format(
                implementation=implementation.name, missing=implementation.missing
            )
        )
    for implementation in figures.found:
        wrong, results = len(implementation.wrong), len(implementation.errors)
        if implementation.foreign and wrong:
            session.note(
                _(
                    "Output head, {implementation}: {wrong} of {results} results are further off than "
                    "their limits; the trainer does not call it, so it refutes nothing."
                ).format(implementation=implementation.name, wrong=wrong, results=results)
            )
    scaled = [
        implementation.name
        for implementation in figures.found
        if implementation.sizes and implementation.sizes[0].tokens != work.shape.tokens
    ]
    if scaled and session.options.device != "cpu":
        session.note(
            _(
                "Output head, {scaled}: {tokens:,} tokens do not fit, figures are extrapolated from fewer."
            ).format(scaled="; ".join(scaled), tokens=work.shape.tokens)
        )
