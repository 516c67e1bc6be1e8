"""Measured passes beside their predictions, as a table."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from tuner.accuracy import (
    USUAL,
    ComparedFile,
    ErrorSpread,
    Inside,
    PassComparison,
    TimedFile,
    special_settings,
    summarise,
)
from tuner.language import _, ngettext, pgettext
from tuner.render.accuracy_recorded import recorded_text
from tuner.render.accuracy_seconds import seconds_text
from tuner.render.columns import left, right
from tuner.render.numbers import gib, share
from tuner.render.terminal import Terminal, plain
from tuner.rules.wording import ends
from tuner.units import GIB

_PASS_AND_TOKENS = 17
_NAME, _AMOUNT, _ERROR = 24, 10, 8  # columns; both groups of figures end in column 80


def _head() -> tuple[str, str]:
    groups = right(_("peak, GiB"), 2 * _AMOUNT) + " " * _ERROR + right(_("added, GiB"), 2 * _AMOUNT)
    figures = (
        right(_("predicted"), _AMOUNT)
        + right(_("measured"), _AMOUNT)
        + right(pgettext("of a prediction", "error"), _ERROR)
    )
    first = "  " + left(_("case"), 5) + left(_("pass"), 9) + right(_("tokens"), 8)
    return " " * _NAME + groups, first + figures * 2


def accuracy_text(
    files: Sequence[ComparedFile],
    timed: Sequence[TimedFile],
    terminal: Terminal,
) -> str:
    """Every file's passes by model and settings, the errors of all of them, recorded runs, what was timed."""
    parts = [part for file in files for part in _file(file, terminal)]
    rows = [row for file in files for row in file.comparisons]
    if rows:
        parts += [_summary(rows, terminal), _notes(rows, terminal)]
    peaks = [peak for file in timed for peak in file.peaks]
    if peaks:
        parts.append(recorded_text(peaks, terminal))
    seconds = seconds_text(timed, terminal)
    return "\n\n".join([*parts, seconds] if seconds else parts) + "\n"


def _file(file: ComparedFile, terminal: Terminal) -> Iterator[str]:
    title = [terminal.style(plain(file.source), "bold")]
    versions = ", ".join(f"{name} {version}" for name, version in file.measured.software.items())
    title += [
        terminal.prose(plain(text), indent="  ", first="  ")
        for text in (file.measured.hardware, versions)
        if text.strip()
    ]
    yield "\n".join(title)
    for place, rows in groupby(enumerate(file.comparisons), key=lambda row: _where(row[1])):
        heading = terminal.style(terminal.prose(plain(place)), "bold")
        yield "\n".join([heading, *(terminal.style(line, "dim") for line in _head()), *_rows(rows, terminal)])


def _where(row: PassComparison) -> str:
    gpus = row.case.world_size
    text = ngettext("{model}, {gpus} GPU", "{model}, {gpus} GPUs", gpus)
    return text.format(model=row.case.model, gpus=gpus)


def _rows(rows: Iterator[tuple[int, PassComparison]], terminal: Terminal) -> Iterator[str]:
    for settings, alike in groupby(rows, key=lambda row: special_settings(row[1].case)):
        yield terminal.prose(", ".join(settings) or _("usual settings"), indent="    ", first="  ")
        for index, row in alike:
            yield _row(index, row)
            if row.reserved_in_interval is False:
                yield _outside(row)
            if row.foreign:
                yield " " * 8 + _("of both peaks {foreign} held by something else").format(
                    foreign=gib(row.foreign, decimals=2)
                )


def _row(index: int, row: PassComparison) -> str:
    name = f"{row.case.pass_:<9}"
    return (
        f"  {index:>4} {name}{row.case.tokens:>{_PASS_AND_TOKENS - len(name)},}"
        f"{_amount(row.predicted_peak)}{_amount(row.measured_peak)}{share(row.error):>{_ERROR}}"
        f"{_amount(row.predicted_added)}{_amount(row.measured_added)}{share(row.added_error):>{_ERROR}}"
    )


def _outside(row: PassComparison) -> str:
    low, high = row.interval
    reserved = gib(row.case.peak_reserved_bytes or 0, decimals=2)
    return " " * 8 + _("reserved {reserved}, outside {interval} GiB").format(
        reserved=reserved, interval=ends(f"{low / GIB:.2f}", f"{high / GIB:.2f}")
    )


def _amount(size: int) -> str:
    return f"{size / GIB:>{_AMOUNT}.2f}"


def _summary(rows: Sequence[PassComparison], terminal: Terminal) -> str:
    summary = summarise(rows)
    title = ngettext(
        "Size of the error over {count} case", "Size of the error over {count} cases", summary.cases
    )
    head = " " * 24 + right(_("median"), 10) + right(_("95th percentile"), 18) + right(_("worst"), 10)
    return "\n".join(
        [
            terminal.style(title.format(count=summary.cases), "bold"),
            terminal.style(head, "dim"),
            _spread(_("peak of the pass"), summary.peak),
            _spread(_("what the pass adds"), summary.added),
            *_reserved(summary.reserved),
        ]
    )


def _reserved(reserved: Inside) -> Iterator[str]:
    """How often the reserved peak was inside its interval, where any was recorded."""
    if reserved.recorded:
        count = _("{inside} of {recorded} ({share})").format(
            inside=reserved.inside, recorded=reserved.recorded, share=share(reserved.share, signed=False)
        )
        yield "  " + _("reserved peak inside the interval: {count}").format(count=count)


def _spread(name: str, spread: ErrorSpread) -> str:
    median, p95, worst = (share(size, signed=False) for size in (spread.median, spread.p95, spread.worst))
    return f"  {left(name, 22)}{median:>10}{p95:>18}{worst:>10}"


def _notes(rows: Sequence[PassComparison], terminal: Terminal) -> str:
    usual = ", ".join(f"{key}={value}" for key, value in USUAL.items())
    notes = [
        _(
            "Peaks are those of PyTorch's allocator on one GPU; added is the peak less what was "
            "allocated when the pass began."
        ),
        _("Settings that a group does not name: {usual}; switches off.").format(usual=usual),
    ]
    if any(row.reserved_in_interval is not None for row in rows):
        notes.append(
            _(
                "Reserved is what PyTorch's allocator holds with the blocks it has freed: at least "
                "the peak, at most as if no kind of tensor used a block that another kind had freed."
            )
        )
    if any(row.foreign for row in rows):
        notes.append(
            _(
                "Held by something else: allocated before the pass and not by its engine, so not "
                "predicted; it counts as measured."
            )
        )
    return "\n".join(terminal.prose(note) for note in notes)
