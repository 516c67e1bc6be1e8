"""The table of phases of two jobs: GiB and seconds, before and after."""

from collections.abc import Iterator

from tuner.consultation.comparison import ConfigurationDiff
from tuner.language import _
from tuner.render.columns import left, right
from tuner.render.lengths import assumed_lengths
from tuner.render.numbers import gib, phase_seconds, rests_on, seconds
from tuner.render.terminal import Terminal
from tuner.render.words import clauses, full_stop, titled
from tuner.timing import StepChange
from tuner.units import GIB

SHOWN_BYTES = 0.05 * GIB  # a smaller change is written as none
_SHOWN_SHARE = 0.005  # of seconds, the same
_BELOW = "~"  # stands in the place of a change that is smaller than its uncertainty
_NAME_WIDTH = len("save_checkpoint")
_AMOUNT_WIDTHS = (9, 7, 8)  # of what stands before and after, and of the change
_SECOND_WIDTHS = (9, 7, 6)


def phase_table(comparison: ConfigurationDiff, terminal: Terminal) -> Iterator[str]:
    """A line for each phase, and one for the host and for the step; phases over the card are marked."""
    before, after = comparison.before.job.case, comparison.after.job.case
    capacity = after.estimate.capacity_bytes
    between = len(terminal.arrow) + 2
    widths = sum(_AMOUNT_WIDTHS) + between, sum(_SECOND_WIDTHS) + between
    titles = right(_("GiB per GPU"), widths[0]) + right(_("seconds"), widths[1])
    yield terminal.style(_named(_("phase"), titles), "dim")
    for phase in comparison.phases:
        peaks = [None if one is None else one.peak_bytes for one in (phase.before, phase.after)]
        cells = _amounts(peaks[0], peaks[1], terminal)
        if phase.before_seconds is not None or phase.after_seconds is not None:
            cells += _times(phase.before_seconds, phase.after_seconds, phase.change, terminal)
        line = _named(phase.phase.value, cells)
        if (phase.after_bytes or 0) > capacity:
            line = terminal.style(line, "bold", "red") + _(" over {card}").format(card=gib(capacity))
        yield line
    host = _amounts(before.estimate.host_bytes, after.estimate.host_bytes, terminal)
    yield _named(_("host, per node"), host)
    change = comparison.change
    step = _times(before.time.seconds, after.time.seconds, change, terminal)
    yield _named(_("step"), " " * widths[0] + step)
    yield from _intervals(comparison, terminal)


def _intervals(comparison: ConfigurationDiff, terminal: Terminal) -> Iterator[str]:
    """How far the seconds of both steps reach, and what the mark in the table means."""
    said = [step_words(comparison, terminal), *assumed_lengths(comparison.after.job.case.workload)]
    yield terminal.prose(full_stop(clauses(said)), indent="    ", first="  ")
    if note := below_uncertainty(comparison):
        yield terminal.prose(full_stop(note), indent="    ", first="  ")


def step_words(comparison: ConfigurationDiff, terminal: Terminal) -> str:
    """The seconds of both steps with their intervals."""
    cases = comparison.before.job.case, comparison.after.job.case
    gpus = [case.workload.cluster.gpu.name for case in cases]
    first, second = (case.step for case in cases)
    alike = rests_on(first, gpus[0]) == rests_on(second, gpus[1])
    words = [phase_seconds(first) if alike else seconds(first, gpus[0]), seconds(second, gpus[1])]
    return titled(_("Step time"), f" {terminal.arrow} ".join(words))


def below_uncertainty(comparison: ConfigurationDiff) -> str:
    """What the mark in the place of a change means; empty where no change has it."""
    changes = [phase.change for phase in comparison.phases] + [comparison.change]
    if not any(change is not None and _is_below(change) for change in changes):
        return ""
    return _("{mark} changes by less than its uncertainty").format(mark=_BELOW)


def _is_below(change: StepChange) -> bool:
    return abs(change.share) >= _SHOWN_SHARE and not (change.is_gain or change.is_loss)


def same_seconds(before: float, after: float) -> bool:
    """Whether two modelled times are written as one."""
    return before == after or (before > 0 and abs(after / before - 1) < _SHOWN_SHARE)


def _named(name: str, cells: str) -> str:
    return f"  {left(name, _NAME_WIDTH)}{cells}"


def amounts(before: int | None, after: int | None) -> tuple[str, str, str]:
    """GiB before and after, and what is added."""
    change = (after or 0) - (before or 0)
    signed = f"{change / GIB:+.1f}" if abs(change) >= SHOWN_BYTES else "="
    one, other = ("-" if amount is None else f"{amount / GIB:.1f}" for amount in (before, after))
    return one, other, signed


def times(before: float | None, after: float | None, change: StepChange | None) -> tuple[str, str, str]:
    """Seconds before and after, and the share that is added."""
    one, other = ("-" if seconds is None else f"{seconds:.1f}" for seconds in (before, after))
    share = ""
    if before and after:
        share = "=" if same_seconds(before, after) else f"{after / before - 1:+.0%}"
        share = _BELOW if change is not None and _is_below(change) else share
    return one, other, share


def _amounts(before: int | None, after: int | None, terminal: Terminal) -> str:
    return _cells(amounts(before, after), _AMOUNT_WIDTHS, terminal)


def _times(before: float | None, after: float | None, change: StepChange | None, terminal: Terminal) -> str:
    return _cells(times(before, after, change), _SECOND_WIDTHS, terminal)


def _cells(texts: tuple[str, str, str], widths: tuple[int, int, int], terminal: Terminal) -> str:
    before, after, change = map(right, texts, widths)
    return f"{before} {terminal.arrow} {after}{change}"
