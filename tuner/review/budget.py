"""A configuration takes more than its team allows

What it checks
--------------

The memory and the seconds of a step beside the budgets that the project's settings or ``--budget FILE`` have for the configuration.
Memory is the peak of each phase, as an amount or as a share of the card.
Time is the seconds of a phase or of the whole step, or the hours of all GPUs that a step takes.
It is an error where the typical value is above the budget.
It is advice where only the upper end of its interval is.

Why it matters
--------------

A change that makes every step longer or fills the card further is easy to miss in a review of settings.
A budget says once what is too much.

When it does not apply
----------------------

A phase that a configuration does not have is within any budget.
Figures are those of sequences as long as the answer takes them: a mean length that is given makes seconds sharper.

Sources
-------

The budgets of Lighthouse, https://github.com/GoogleChrome/lighthouse, are the model of these.
"""  # noqa: D415, E501 - the first line is the page's title, and a sentence of a page has one line

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from tuner.advise import Advice
from tuner.errors import InputError, Location
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.review.project.discovery import matches
from tuner.review.project.read import PlacedBudget
from tuner.rules.wording import around, duration, gib, up_to
from tuner.timing import Interval, step_interval
from tuner.timing.uncertainty import phase_interval
from tuner.units import parse_bytes, parse_seconds
from tuner.workload import Phase

RULE = Rule(
    code="CFG910",
    name="over-budget",
    summary=N_("a configuration takes more than its team allows"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_HOUR_S = 3600


class _Limit(Struct, frozen=True, kw_only=True):
    """One number of a budget."""

    most: float
    shown: str  # as the budget has it
    place: Location


def check(advice: Advice, budgets: tuple[PlacedBudget, ...], file: Path | None) -> Iterator[Finding]:
    """One finding for each number of a budget that the job is above, or may be.

    Args:
        advice: of the job.
        budgets: all that there are; those whose patterns do not mean the file are passed over.
        file: the input; of one that is no file, budgets without patterns hold alone.

    Raises:
        InputError: a budget has no number where one is needed.
    """
    for budget in budgets:
        files = budget.budget.files
        if files is None or (file is not None and matches(file, files, budget.folder)):
            yield from _step(advice, budget)
            yield from _phases(advice, budget)


def _step(advice: Advice, placed: PlacedBudget) -> Iterator[Finding]:
    """What the whole step is above."""
    budget, place = placed.budget, placed.place
    step = step_interval(advice.time, advice.workload.cluster)
    if budget.seconds is not None:
        limit = _seconds(budget.seconds, place("seconds"))
        yield from _over_time(step, limit, _("the step"), None, per_hour=0)
    if budget.gpu_hours is not None:
        limit = _hours(budget.gpu_hours, place("gpu-hours"))
        yield from _over_time(step, limit, _("the step"), None, per_hour=advice.workload.cluster.gpus)


def _phases(advice: Advice, placed: PlacedBudget) -> Iterator[Finding]:
    """What single phases are above; a phase's own number of memory is heard in place of that for all."""
    budget, place, cluster = placed.budget, placed.place, advice.workload.cluster
    for estimate in advice.estimate.phases:
        own = budget.phases.get(estimate.phase)
        memory_limit, at = budget.memory, place("memory")
        if own is not None and own.memory is not None:
            memory_limit, at = own.memory, place("phases", estimate.phase.value, "memory")
        if memory_limit is not None:
            limit = _memory(memory_limit, advice.estimate.capacity_bytes, at)
            yield from _over_memory(estimate.peak_bytes, estimate.interval[1], limit, estimate.phase)
    for time in advice.time.phases:
        own = budget.phases.get(time.phase)
        if own is None:
            continue
        taken, name = phase_interval(time, cluster), time.phase.value
        if own.seconds is not None:
            limit = _seconds(own.seconds, place("phases", name, "seconds"))
            yield from _over_time(taken, limit, name, time.phase, per_hour=0)
        if own.gpu_hours is not None:
            limit = _hours(own.gpu_hours, place("phases", name, "gpu-hours"))
            yield from _over_time(taken, limit, name, time.phase, per_hour=cluster.gpus)


def _over_memory(typical: int, most: int, limit: _Limit, phase: Phase) -> Iterator[Finding]:
    if most <= limit.most:
        return
    text = (
        _("{phase} peaks at {typical}, above the budget of {limit} ({place})")
        if typical > limit.most
        else _("{phase} peaks at {typical} and may reach {most}, above the budget of {limit} ({place})")
    )
    shown = up_to(typical, most) if typical > limit.most else gib(typical)
    message = text.format(
        phase=phase.value, typical=shown, most=gib(most), limit=limit.shown, place=limit.place
    )
    yield _finding(message, phase, Evidence.MODELLED, breached=typical > limit.most)


def _over_time(
    taken: Interval, limit: _Limit, name: str, phase: Phase | None, *, per_hour: int
) -> Iterator[Finding]:
    """A finding where it takes too long; ``per_hour`` is the number of GPUs where their hours are counted."""
    scale = per_hour / _HOUR_S if per_hour else 1.0
    typical, low, high = (scale * seconds for seconds in (taken.seconds, taken.low_s, taken.high_s))
    if high <= limit.most:
        return
    text = (
        _("{name} takes {taken}, above the budget of {limit} ({place})")
        if typical > limit.most
        else _("{name} takes {taken}, which may be above the budget of {limit} ({place})")
    )
    unit = _("GPU-hours") if per_hour else _("s")
    ends = (duration(end, like=typical) for end in (low, high))
    taken_words = around(f"{duration(typical)} {unit}", *ends)
    message = text.format(name=name, taken=taken_words, limit=limit.shown, place=limit.place)
    yield _finding(message, phase, taken.evidence, breached=typical > limit.most)


def _finding(message: str, phase: Phase | None, evidence: Evidence, *, breached: bool) -> Finding:
    severity = RULE.severity if breached else Severity.ADVICE
    return Finding(rule=RULE, message=message, severity=severity, evidence=evidence, phase=phase)


def _memory(limit: str, capacity_bytes: int, place: Location) -> _Limit:
    share = _SHARE.fullmatch(limit.strip())
    if share is not None and float(share[1]) > 0:
        most = float(share[1]) / 100 * capacity_bytes
        shown = _("{share} of the card, {limit}").format(share=limit.strip(), limit=gib(most))
        return _Limit(most=most, shown=shown, place=place)
    most = _read(parse_bytes, limit, place, hint=_("write it as 70GiB or 85%"))
    return _Limit(most=most, shown=gib(most), place=place)


def _seconds(limit: str | float, place: Location) -> _Limit:
    most = _read(parse_seconds, str(limit), place)
    return _Limit(most=most, shown=_("{seconds} s").format(seconds=f"{most:g}"), place=place)


def _hours(limit: float, place: Location) -> _Limit:
    return _Limit(most=limit, shown=_("{hours} GPU-hours").format(hours=f"{limit:g}"), place=place)


def _read(parse: Callable[[str], float], text: str, place: Location, *, hint: str | None = None) -> float:
    """A number of a budget; ``hint`` says how to write one where the error itself does not.

    Raises:
        InputError: it is none; the error says where it stands.
    """
    try:
        return parse(text)
    except InputError as error:
        raise InputError(error.message, location=place, hint=hint or error.hint) from None
