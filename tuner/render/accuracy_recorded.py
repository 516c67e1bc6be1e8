"""Peaks of recorded runs beside their predictions, as a table."""

from collections.abc import Sequence
from itertools import groupby

from tuner.accuracy.recorded_runs import RecordedPeak
from tuner.language import _, pgettext
from tuner.render.columns import left, right
from tuner.render.numbers import gib_interval, share
from tuner.render.terminal import Terminal, plain
from tuner.units import GIB

_PHASE, _FIGURE, _INTERVAL = 15, 12, 16


def recorded_text(peaks: Sequence[RecordedPeak], terminal: Terminal) -> str:
    """Every phase of every run; empty without any."""
    return "\n\n".join(_run(case, list(rows), terminal) for case, rows in groupby(peaks, key=_case))


def _case(peak: RecordedPeak) -> str:
    return peak.case


def _run(case: str, rows: Sequence[RecordedPeak], terminal: Terminal) -> str:
    title = _("Peaks by phase, GiB: {case}").format(case=plain(case))
    head = (
        "  "
        + left(_("phase"), _PHASE)
        + right(_("predicted"), _FIGURE)
        + right(_("measured"), _FIGURE)
        + right(pgettext("of a prediction", "error"), 8)
        + right(_("reserved"), 10)
        + right(_("predicted"), _INTERVAL)
    )
    return "\n".join(
        [terminal.style(title, "bold"), terminal.style(head, "dim"), *(_row(row) for row in rows)]
    )


def _row(row: RecordedPeak) -> str:
    figures = f"{row.predicted_bytes / GIB:>{_FIGURE}.2f}{row.measured_bytes / GIB:>{_FIGURE}.2f}"
    measured = row.measured_reserved_bytes
    reserved = f"{'-' if measured is None else f'{measured / GIB:.2f}':>10}"
    ends = right(gib_interval(row.predicted_reserved_bytes), _INTERVAL)
    return f"  {left(row.phase, _PHASE)}{figures}{share(row.error):>8}{reserved}{ends}"
