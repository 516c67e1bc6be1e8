"""Validation between steps in words: what it takes, what falls on a step, and how often would be less."""

from tuner.consultation.between_steps import PricedValidation
from tuner.consultation.premises import OPTIONS
from tuner.consultation.result import Consultation
from tuner.counted import counted
from tuner.language import N_, _
from tuner.render.document.marks import strong
from tuner.render.document.parts import Entry, Paragraph, Paste
from tuner.render.numbers import seconds
from tuner.render.words import clauses, full_stop, listed, titled
from tuner.rules.wording import duration
from tuner.timing import step_interval
from tuner.workload.validation import KnownRows

FREQUENT = 0.05
"""Share of a step from which what comes between steps is told in the short answer."""

FREQUENT_PER_HUNDRED = 0.01
"""The same for 100 rows where nobody says how many there are, in the line at the end."""

_LESS_OFTEN = (2, 5, 10, 20, 50, 100, 200, 500)  # steps between two validations that are proposed
_ROWS = {
    KnownRows.SAID: N_("{rows} of validation data"),
    KnownRows.NAMED: N_(
        "{rows} of validation data, if their file is the test set of {data} as its name says ({option} says "
        "another number)"
    ),
    KnownRows.AT_MOST: N_("at most {rows} of validation data ({key})"),
    KnownRows.AT_LEAST: N_(
        "the {rows} of validation data that have to be there ({option} says how many are)"
    ),
    KnownRows.UNKNOWN: N_("{rows} of validation data, an example ({option} says how many there are)"),
}


def validation_seconds(answer: Consultation) -> str:
    """How long a validation takes, and what falls on a step; empty for a job without any."""
    priced, cluster = answer.validation, answer.advice.workload.cluster
    if priced is None:
        return ""
    taken = seconds(step_interval(priced.time.time, cluster), cluster.gpu.name)
    text = _("Validation: {seconds} for {rows}, without rewards.").format(seconds=taken, rows=_rows(priced))
    if priced.time.step_seconds is None:
        return text
    return _("{text} It comes {every}, {spread} s a step on top of the step's.").format(
        text=text, every=_every(priced.time.every_steps), spread=duration(priced.time.step_seconds)
    )


def frequent_validation(answer: Consultation) -> tuple[Entry, ...]:
    """What validation adds to a step and how often would be less, where that is much of the step."""
    priced, step_s = answer.validation, answer.advice.time.seconds
    if priced is None or priced.time.step_seconds is None:
        return ()
    larger = _larger_batches(answer, priced)
    if priced.time.rows_known is KnownRows.UNKNOWN or priced.share(step_s) < FREQUENT:
        return larger
    title = strong(_("Validation"))
    text = _(
        "{every}, {seconds} s of generation for {rows}, rewards not counted: {share} of the step with it"
    )
    text = text.format(rows=_rows(priced), **_figures(priced, step_s))
    steps = _seldom_enough(priced, step_s)
    planned = answer.loaded.planned_steps
    if planned is not None and (priced.time.every_steps or 0) >= planned:
        last = _("the last step is validated whatever {key} says").format(key=priced.how.key)
        return (*larger, Entry(text=titled(title, full_stop(clauses([text, last])))))
    rest = priced.time.time.seconds / steps
    left = _("{key}={steps} leaves {share:.1%} and trains the same").format(
        key=priced.how.key, steps=steps, share=rest / (rest + step_s)
    )
    shown = answer.settings.shown_override(f"{priced.how.key}={steps}")
    said = titled(title, full_stop(clauses([text, left])))
    return (*larger, Entry(text=said, details=(Paste(lines=(shown,), level=2),)))


def _larger_batches(answer: Consultation, priced: PricedValidation) -> tuple[Entry, ...]:
    """The batches in which a validation takes less, with what that saves of a step."""
    larger, step_s = priced.larger, answer.advice.time.seconds
    if larger is None:
        return ()
    before, after = priced.time.time.seconds, larger.time.time.seconds
    now, then = (taken / (priced.time.every_steps or 1) for taken in (before, after))
    text = _(
        "{rows} are generated in {batches}, one after the other, in {before} s; in {fewer} that is "
        "{after} s: {share} of the step with it; numerics: the same"
    ).format(
        rows=_rows(priced),
        batches=counted(priced.time.batches, "batch", "batches"),
        fewer=counted(larger.time.batches, "batch", "batches"),
        before=duration(before),
        after=duration(after),
        share=f"{(now - then) / (step_s + now):.0%}",
    )
    shown = answer.settings.shown_override(f"{priced.how.batch_key}={larger.prompts_at_a_time}")
    from tuner.consultation import validation_rounds  # of few launches

    title = strong(f"{validation_rounds.RULE.code} {validation_rounds.RULE.name}")
    return (Entry(text=titled(title, full_stop(text)), details=(Paste(lines=(shown,), level=2),)),)


def validation_of_unknown_rows(answer: Consultation) -> tuple[Paragraph, ...]:
    """What an example takes where nobody says how many rows there are, in one line; none of a small part."""
    priced, step_s = answer.validation, answer.advice.time.seconds
    if priced is None or priced.time.rows_known is not KnownRows.UNKNOWN:
        return ()
    if priced.share(step_s) < FREQUENT_PER_HUNDRED:
        return ()
    text = _(
        "Validation {every}: {rows} would take {seconds} s of generation, {share} of the step with it; "
        "{option} says how many there are."
    ).format(rows=counted(priced.time.rows, "row"), option=OPTIONS["val_rows"], **_figures(priced, step_s))
    return (Paragraph(text=text, further=1),)


def _figures(priced: PricedValidation, step_s: float) -> dict[str, str]:
    """How often it comes, what it takes, and its share, as texts."""
    return {
        "every": _every(priced.time.every_steps),
        "seconds": duration(priced.time.time.seconds),
        "share": f"{priced.share(step_s):.0%}",
    }


def _seldom_enough(priced: PricedValidation, step_s: float) -> int:
    """The steps between two validations that bring them below what is told; else the most there are."""
    for steps in _LESS_OFTEN:
        rest = priced.time.time.seconds / steps
        if steps > (priced.time.every_steps or 0) and rest < FREQUENT * (rest + step_s):
            return steps
    return _LESS_OFTEN[-1]


def _rows(priced: PricedValidation) -> str:
    return _(_ROWS[priced.time.rows_known]).format(
        rows=counted(priced.time.rows, "row"),
        key=priced.how.rows_key,
        option=OPTIONS["val_rows"],
        data=listed(priced.how.named),
    )


def _every(steps: int | None) -> str:
    return _("every step") if steps == 1 else _("every {steps:,} steps").format(steps=steps)
