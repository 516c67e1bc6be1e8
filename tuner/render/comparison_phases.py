"""The table of phases of two jobs: GiB and seconds, before and after."""

from collections.abc import Iterator

from tuner.consultation.comparison import ConfigurationDiff, PhaseChange
from tuner.language import _
from tuner.render.document.marks import ARROW, Mark, Medium, code, either, strong, user_text
from tuner.render.document.parts import Column, Paragraph, Part, Row, Table
from tuner.render.lengths import assumed_lengths
from tuner.render.numbers import gib, phase_seconds, rests_on, seconds, share_bar
from tuner.render.words import clauses, full_stop, titled
from tuner.timing import StepChange
from tuner.units import GIB

SHOWN_BYTES = 0.05 * GIB  # a smaller change is written as none
_SHOWN_SHARE = 0.005  # of seconds, the same
_BELOW = "~"  # stands in the place of a change that is smaller than its uncertainty
_UNIT = "GiB"
_NAME_WIDTH = len("save_checkpoint")
_AMOUNT_WIDTHS = (9, 7, 8)  # of what stands before and after, and of the change
_SECOND_WIDTHS = (9, 7, 6)
_NONE = ("", "", "")


def phases(comparison: ConfigurationDiff) -> Iterator[Part]:
    """A row for each phase, the host and the step; on a page only where a figure of them changes."""
    only = None if _changes(comparison) else Medium.TERMINAL
    rows = (*(_phase(phase, comparison) for phase in comparison.phases), *_totals(comparison))
    yield Table(columns=_columns(), rows=rows, only=only)
    yield Paragraph(text="\n".join(_notes(comparison)), level=1, further=1, only=only)
    if only is Medium.TERMINAL:
        yield Paragraph(text=_("Memory and seconds of every phase stay as they are."), only=Medium.PAGE)


def _changes(comparison: ConfigurationDiff) -> bool:
    """Whether a figure of the table would change."""
    before, after = comparison.before.job.case.time, comparison.after.job.case.time
    if not same_seconds(before.seconds, after.seconds):
        return True
    return any(abs(one.change_bytes) >= SHOWN_BYTES for one in comparison.phases)


def _columns() -> tuple[Column, ...]:
    memory = (_("before, {unit}").format(unit=_UNIT), _("after, {unit}").format(unit=_UNIT), _("change"))
    times = (_("before, s"), _("after, s"), _("change"))
    return (
        Column(title=either(terminal=_("phase"), page=_("Phase")), width=_NAME_WIDTH),
        *_group(_("GiB per GPU"), memory, _AMOUNT_WIDTHS),
        Column(title=_("Share of the card"), only=Medium.PAGE),
        *_group(_("seconds"), times, _SECOND_WIDTHS),
    )


def _group(name: str, titles: tuple[str, ...], widths: tuple[int, ...]) -> Iterator[Column]:
    arrows = ("", f" {ARROW} ", "")
    for title, width, arrow in zip(titles, widths, arrows, strict=True):
        yield Column(title=either(page=title), group=name, width=width, align="right", before=arrow)


def _phase(phase: PhaseChange, comparison: ConfigurationDiff) -> Row:
    capacity = comparison.after.job.case.estimate.capacity_bytes
    peaks = [None if one is None else one.peak_bytes for one in (phase.before, phase.after)]
    timed = _NONE
    if phase.before_seconds is not None or phase.after_seconds is not None:
        timed = _times(phase.before_seconds, phase.after_seconds, phase.change)
    after = phase.after_bytes or 0
    over = after > capacity
    return Row(
        cells=(code(phase.phase.value), *_amounts(*peaks), share_bar(after / capacity), *timed),
        mark=Mark.BAD if over else None,
        note=_(" over {card}").format(card=gib(capacity)) if over else "",
    )


def _totals(comparison: ConfigurationDiff) -> Iterator[Row]:
    before, after = comparison.before.job.case, comparison.after.job.case
    host = _amounts(before.estimate.host_bytes, after.estimate.host_bytes)
    yield Row(cells=(_("host, per node"), *host, "", *_NONE))
    step = _times(before.time.seconds, after.time.seconds, comparison.change)
    name = either(terminal=_("step"), page=strong(_("step")))
    yield Row(cells=(name, *_NONE, "", *step))


def _notes(comparison: ConfigurationDiff) -> Iterator[str]:
    """The card, how far the seconds of both steps reach, and what the mark in the table means."""
    after = comparison.after
    job = _("On one of {gpus}, with {capacity} each").format(
        gpus=user_text(after.gpus), capacity=gib(after.job.case.estimate.capacity_bytes)
    )
    assumed = [_("the card is assumed, since none was named")] if after.gpu_assumed else []
    yield either(page=full_stop(clauses([job, *assumed])))
    yield full_stop(clauses([_steps(comparison), *assumed_lengths(after.job.case.workload)]))
    changes = [phase.change for phase in comparison.phases] + [comparison.change]
    if any(change is not None and _is_below(change) for change in changes):
        yield full_stop(_("{mark} changes by less than its uncertainty").format(mark=_BELOW))


def _steps(comparison: ConfigurationDiff) -> str:
    """The seconds of both steps with their intervals."""
    cases = comparison.before.job.case, comparison.after.job.case
    gpus = [case.workload.cluster.gpu.name for case in cases]
    first, second = (case.step for case in cases)
    alike = rests_on(first, gpus[0]) == rests_on(second, gpus[1])
    words = [phase_seconds(first) if alike else seconds(first, gpus[0]), seconds(second, gpus[1])]
    return titled(_("Step time"), f" {ARROW} ".join(words))


def _is_below(change: StepChange) -> bool:
    return abs(change.share) >= _SHOWN_SHARE and not (change.is_gain or change.is_loss)


def same_seconds(before: float, after: float) -> bool:
    """Whether two modelled times are written as one."""
    return before == after or (before > 0 and abs(after / before - 1) < _SHOWN_SHARE)


def _amounts(before: int | None, after: int | None) -> tuple[str, str, str]:
    """GiB before and after, and what is added."""
    change = (after or 0) - (before or 0)
    signed = f"{change / GIB:+.1f}" if abs(change) >= SHOWN_BYTES else "="
    one, other = ("-" if amount is None else f"{amount / GIB:.1f}" for amount in (before, after))
    return one, other, signed


def _times(before: float | None, after: float | None, change: StepChange | None) -> tuple[str, str, str]:
    """Seconds before and after, and the share that is added."""
    one, other = ("-" if seconds is None else f"{seconds:.1f}" for seconds in (before, after))
    share = ""
    if before and after:
        share = "=" if same_seconds(before, after) else f"{after / before - 1:+.0%}"
        share = _BELOW if change is not None and _is_below(change) else share
    return one, other, share
