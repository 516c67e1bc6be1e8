"""The block to paste: what it makes of the job, and what each finding puts into it."""

from collections.abc import Iterator, Sequence

from tuner.advise import Advice, Combination, Contribution
from tuner.findings import Severity
from tuner.render.left_out import without
from tuner.render.numbers import change, gib, percent, same_gib, same_time, seconds_change
from tuner.render.terminal import Terminal
from tuner.render.words import pasteable
from tuner.trainers.protocol import LeftOut
from tuner.units import GIB

_TITLE = "Paste this"
_LEAST_BYTES = 0.05 * GIB  # a smaller change of the worst phase is not shown


def block(advice: Advice, terminal: Terminal, left_out: Sequence[LeftOut] = ()) -> str:
    """The overrides of all accepted advice, and the job that the trainer reads from them, without what."""
    together = advice.combination
    if together is None:
        return _none(advice, terminal)
    lines = [_outcome(advice, together, terminal, left_out), ""]
    return "\n".join(lines) + "\n" + pasted(together.overrides)


def pasted(overrides: Sequence[str]) -> str:
    """Overrides as lines of one shell command."""
    return " \\\n".join(pasteable(override) for override in overrides)


def contributions(advice: Advice, terminal: Terminal) -> str:
    """The findings behind the block, each with its overrides and with what would be lost without it."""
    together = advice.combination
    if together is None:
        return ""
    lines = [terminal.style("What each part of the block brings", "bold")]
    for part in together.contributions:
        lines += _contribution(part, together, terminal)
    return "\n".join(lines)


def _contribution(part: Contribution, together: Combination, terminal: Terminal) -> Iterator[str]:
    rule = part.finding.rule
    yield terminal.prose(f"{rule.code} {rule.name}: {_lost(part, together)}", indent="    ", first="  ")
    yield from (f"      {pasteable(text)}" for text in part.overrides)


def _lost(part: Contribution, together: Combination) -> str:
    """What the job would be with everything else."""
    without = part.without
    if without is None:
        return "mends an error" if part.finding.severity is Severity.ERROR else "the others rest on it"
    words = []
    if not (without.fits and without.certain):
        words.append(f"without it the job does not fit{' for certain' if without.fits else ''}")
    longer = without.seconds / together.time.seconds - 1
    if not without.starts:  # and has no seconds
        words.append("without it the rollout engine has no cache for one sequence")
    elif longer >= 0.005:
        words.append(f"without it the step is {percent(longer)} longer")
    if abs(without.worst_bytes - together.estimate.worst.peak_bytes) >= _LEAST_BYTES:
        words.append(f"without it the worst phase peaks at {gib(without.worst_bytes)}")
    return "; ".join(words) or "makes room for the others"


def _outcome(advice: Advice, together: Combination, terminal: Terminal, left_out: Sequence[LeftOut]) -> str:
    worst, before = together.estimate.worst, advice.estimate.worst
    low_high = f"up to {gib(worst.interval[1])} of {gib(together.estimate.capacity_bytes)}"
    uncounted = without(left_out, fits=True)
    certain = advice.verdict is not together.verdict and not uncounted
    words = [
        f"fits{' for certain' if certain else ''}{uncounted}",
        f"worst phase {_peaks(before.peak_bytes, worst.peak_bytes)} ({worst.phase.value}, {low_high})",
    ]
    if advice.cheapest is not None:
        before_s, after_s = advice.cheapest.seconds, together.time.seconds
        than = ", as in" if same_time(before_s, after_s) else " than"
        words.append(seconds_change(before_s, after_s) + _compared(advice, than))
    if any(refusal.yours or not refusal.overrides for refusal in advice.refusals):
        words.append("once the launch is no longer refused")
    text = "; ".join(words).replace("->", terminal.arrow)
    return terminal.prose(f"{_TITLE}: {text}", indent="  ", first="").replace(
        _TITLE, terminal.style(_TITLE, "bold"), 1
    )


def _peaks(before: int, after: int) -> str:
    return f"stays at {gib(after)}" if same_gib(before, after) else change(before, after)


def _compared(advice: Advice, than: str) -> str:
    """What the seconds are compared with, where that is not the job as it is."""
    if advice.cheapest is not None and advice.cheapest.rules:
        return f"{than} the cheapest form that fits, with {', '.join(advice.cheapest.rules)}"
    return f"{than} the job that starts" if advice.refusals else ""


def _none(advice: Advice, terminal: Terminal) -> str:
    """Why there is nothing to paste."""
    other = advice.if_reweighted
    if any(refusal.stands for refusal in advice.refusals):
        why = ": what refuses the launch has to be mended by hand."
    elif other is not None:
        worst = other.estimate.worst
        gain = "makes the job fit" if advice.verdict is not other.verdict else "makes the step shorter"
        why = (
            f" that leaves the loss as it is. With --allow reweighted a block {gain}: "
            f"worst phase {gib(worst.peak_bytes)} ({worst.phase.value})."
        )
    elif not advice.estimate.fits_for_certain():
        why = ": nothing that leaves the training as it is makes the job fit for certain."
    else:
        why = ": no change is worth a percent of the step."
    return terminal.prose(f"Nothing to paste{why}", indent="  ", first="")
