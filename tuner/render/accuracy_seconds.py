"""Measured seconds beside their predictions, as tables."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from tuner.accuracy import MeasurementOrigin, Ratios, Series, TimedFile, TimedPhase, ratios, series
from tuner.language import N_, _, pgettext
from tuner.render.accuracy_pairs import pairs_text
from tuner.render.accuracy_remarks import remarks_texts
from tuner.render.columns import left, right
from tuner.render.numbers import percent, quantity
from tuner.render.terminal import Terminal, plain

_PHASE, _CARD, _FIGURE, _INTERVAL = 15, 13, 11, 17
_WHOLE = 100  # seconds, from which on no tenth is shown
_TITLES = {
    MeasurementOrigin.RUN: N_("Steps of runs"),
    MeasurementOrigin.FIRST_STEP: N_("First steps of runs, compiling included"),
    MeasurementOrigin.WARM_PASS: N_("Passes that were repeated on a warm GPU"),
    MeasurementOrigin.SINGLE_PASS: N_("Single passes, with what a first use brings"),
}


def seconds_text(files: Sequence[TimedFile], terminal: Terminal) -> str:
    """Every timed step and repeated pass, then how far all are off; empty where nothing was timed."""
    phases = [phase for file in files for phase in file.phases]
    parts = [part for file in files for part in _file(file, terminal)]
    parts += [_summary(origin, phases, terminal) for origin in MeasurementOrigin if _of(origin, phases)]
    ordered = series(phase for phase in phases if phase.origin is not MeasurementOrigin.SINGLE_PASS)
    if ordered:
        parts.append(_order(ordered, terminal))
    if any(file.utilisations for file in files):
        parts.append(_utilisation(files, terminal))
    pairs = [pair for file in files for pair in file.pairs]
    if pairs:
        parts.append(pairs_text(pairs, terminal))
    if any(file.left_out for file in files):
        parts.append(_left_out(files, terminal))
    parts += remarks_texts(files, terminal)
    if phases:
        parts.append(_notes(phases, terminal))
    return "\n\n".join(parts)


def _of(origin: MeasurementOrigin, phases: Sequence[TimedPhase]) -> list[TimedPhase]:
    return [phase for phase in phases if phase.origin is origin]


def _file(file: TimedFile, terminal: Terminal) -> Iterator[str]:
    shown = [phase for phase in file.phases if phase.origin is not MeasurementOrigin.SINGLE_PASS]
    if not shown:
        return
    columns = left("", _PHASE + 2) + "".join(
        right(name, _FIGURE)
        for name in (_("predicted"), _("measured"), pgettext("predicted over measured", "ratio"))
    )
    columns += right(_("interval, s"), _INTERVAL) + right(_("inside"), 8)
    lines = [terminal.style(_("Seconds: {source}").format(source=plain(file.source)), "bold")]
    lines.append(terminal.style(columns, "dim"))
    for (case, origin), rows in groupby(shown, key=lambda row: (row.case, row.origin)):
        listed = list(rows)
        text = (
            _("{case}, its first step: {model}, {gpus} x {gpu}")
            if origin is MeasurementOrigin.FIRST_STEP
            else _("{case}: {model}, {gpus} x {gpu}")
        )
        heading = text.format(
            case=plain(case.removeprefix(f"{file.source}: ")),
            model=plain(listed[0].model),
            gpus=listed[0].gpus,
            gpu=plain(listed[0].gpu),
        )
        lines += [terminal.prose(heading, indent="    ", first="  "), *(_row(row) for row in listed)]
    yield "\n".join(lines)


def _row(row: TimedPhase) -> str:
    figures = (quantity(row.predicted_s, "seconds"), quantity(row.measured_s, "seconds"), f"{row.ratio:.2f}")
    ends = f"{_short(row.low_s)}-{_short(row.high_s)}"
    answer = _("yes") if row.inside else _("no")
    return (
        "    "
        + left(row.phase, _PHASE - 2)
        + "".join(f"{figure:>{_FIGURE}}" for figure in figures)
        + right(ends, _INTERVAL)
        + right(answer, 8)
    )


def _short(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= _WHOLE else f"{seconds:.3g}"


def _summary(origin: MeasurementOrigin, phases: Sequence[TimedPhase], terminal: Terminal) -> str:
    rows = ratios(_of(origin, phases))
    head = (
        "  "
        + left(_("phase"), _PHASE)
        + left(_("card"), _CARD)
        + right(_("cases"), 5)
        + right(_("median"), 7)
        + right(_("middle 80 %"), 11)
        + right(pgettext("of a prediction", "error"), 6)
        + right(_("in 15 %"), 8)
        + right(_("inside"), 7)
        + right(pgettext("of an interval", "width"), 6)
    )
    title = _("{kind}: predicted over measured seconds").format(kind=_(_TITLES[origin]))
    of_origin = _of(origin, phases)
    line = _("all: {inside} of {count} inside ({share}); median width {width}").format(
        inside=sum(row.inside for row in of_origin),
        count=len(of_origin),
        share=percent(sum(row.inside for row in of_origin) / len(of_origin)),
        width=f"{median(row.width for row in of_origin):.1f}",
    )
    lines = [terminal.style(title, "bold"), terminal.style(head, "dim"), *map(_summary_row, rows)]
    return "\n".join([*lines, f"  {line}"])


def _summary_row(row: Ratios) -> str:
    middle = f"{row.p10:.2f}-{row.p90:.2f}"
    return (
        f"  {left(row.phase, _PHASE)}{left(plain(row.gpu), _CARD)}{row.count:>5}{row.median:>7.2f}"
        f"{middle:>11}{percent(row.median_error):>6}{percent(row.close):>8}{percent(row.inside):>7}"
        f"{row.width:>6.1f}"
    )


def _order(series: Sequence[Series], terminal: Terminal) -> str:
    title = _("Order of the settings of one model on one card (rank correlation)")
    rows = [
        f"  {left(row.phase, _PHASE)}{left(plain(row.gpu), _CARD)}{row.count:>6}{row.rank_correlation:>8.2f}"
        f"  {plain(row.model)}"
        for row in series
    ]
    return "\n".join([terminal.style(title, "bold"), *rows])


def _utilisation(files: Sequence[TimedFile], terminal: Terminal) -> str:
    title = _("Model FLOP utilisation of the actor's update, by the trainer's formula")
    head = left("", 26) + right(_("predicted"), _FIGURE) + right(_("printed"), _FIGURE)
    rows = [
        f"  {left(plain(one.case), 24)}{one.predicted:>{_FIGURE}.2f}{one.printed:>{_FIGURE}.2f}"
        for file in files
        for one in file.utilisations
    ]
    return "\n".join([terminal.style(title, "bold"), terminal.style(head, "dim"), *rows])


def _left_out(files: Sequence[TimedFile], terminal: Terminal) -> str:
    rows = [
        terminal.prose(f"{plain(one.case)}: {plain(one.reason)}", indent="    ", first="  ")
        for file in files
        for one in file.left_out
    ]
    return "\n".join([terminal.style(_("Left out"), "bold"), *rows])


def _notes(phases: Sequence[TimedPhase], terminal: Terminal) -> str:
    notes = [
        _(
            "Middle 80 %: one ratio in ten is lower, one higher. Error: the median without its sign, as a "
            "share of what was measured. In 15 %: no further off. Inside: the measured seconds lie in the "
            "predicted interval. Width: the median of its upper end over its lower one."
        )
    ]
    if _of(MeasurementOrigin.RUN, phases) or _of(MeasurementOrigin.FIRST_STEP, phases):
        notes.append(
            _(
                "A step is the sum of the predicted phases beside the trainer's whole step, in which rewards "
                "and data handling count as well."
            )
        )
    if _of(MeasurementOrigin.SINGLE_PASS, phases):
        notes.append(_("Single passes are listed by --output-format json."))
    return "\n".join(terminal.prose(note) for note in notes)
