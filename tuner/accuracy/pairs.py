"""Two runs that differ in one setting: the change that is predicted beside the one that was measured."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from typing import Annotated

from msgspec import Meta, Struct

from tuner.accuracy.seconds import LEAST_S, SettingPair
from tuner.accuracy.steps import STEP, made, timed_together
from tuner.override_text import override_key, value_text
from tuner.timing import PhaseTime, StepTime, change
from tuner.workload import Workload
from tuner.workload.observed_run import ObservedRun

MOST_PAIRS = 1000  # of a file: a thousand runs of one grid would make half a million


class PredictedRun(Struct, frozen=True, kw_only=True):
    """A run of a file with what is predicted of it."""

    case: str
    settings: Annotated[dict[str, str], Meta(description="by key, the card and its number among them")]
    workload: Workload
    time: StepTime
    observed: ObservedRun


def settings_of(overrides: Sequence[str], **others: object) -> dict[str, str]:
    """The settings of a run by key, the last one of each; ``others`` are those that are no overrides."""
    told = {override_key(text): value_text(text) if "=" in text else text for text in overrides}
    return told | {name: str(value) for name, value in others.items()}


def setting_pairs(runs: Sequence[PredictedRun]) -> Iterator[SettingPair]:
    """Every two runs that differ in one setting, phase by phase, in the order of the file."""
    keys = dict.fromkeys(name for run in runs for name in run.settings)
    alike: dict[tuple[str, frozenset[tuple[str, str]]], list[int]] = defaultdict(list)
    for place, run in enumerate(runs):
        items = frozenset(run.settings.items())
        for key in keys:
            alike[key, items - {(key, run.settings.get(key, ""))}].append(place)
    found = (
        (first, second, key)
        for (key, _others), places in alike.items()
        if len({runs[place].settings.get(key) for place in places}) > 1
        for first, second in combinations(places, 2)
        if runs[first].settings.get(key) != runs[second].settings.get(key)
    )
    for first, second, key in sorted(islice(found, MOST_PAIRS)):
        yield from _compared(runs[first], runs[second], key)


def _compared(first: PredictedRun, second: PredictedRun, key: str) -> Iterator[SettingPair]:
    """The phases that both runs timed, and the step."""
    then = dict(second.observed.seconds)
    for phase, seconds in first.observed.seconds:
        sides = [timed_together(run.time, phase, run.observed) for run in (first, second)]
        yield from _change(first, second, key, phase.value, sides, (seconds, then.get(phase)))
    steps = [made(run.time, run.observed).phases for run in (first, second)]
    measured = first.observed.step_seconds, second.observed.step_seconds
    yield from _change(first, second, key, STEP, steps, measured)


def _change(
    first: PredictedRun,
    second: PredictedRun,
    key: str,
    phase: str,
    sides: Sequence[tuple[PhaseTime, ...]],
    measured: tuple[float | None, float | None],
) -> Iterator[SettingPair]:
    before_s, after_s = measured
    if not all(sides) or not before_s or not after_s or min(before_s, after_s) < LEAST_S:
        return
    before, after = (
        StepTime(phases=side, apart=run.time.apart and phase == STEP)
        for side, run in zip(sides, (first, second), strict=True)
    )
    clusters = first.workload.cluster, second.workload.cluster
    predicted = change(before, after, clusters[0], then=clusters[1], of_runs=True)
    yield SettingPair(
        first=first.case,
        second=second.case,
        key=key,
        values=(first.settings.get(key), second.settings.get(key)),
        phase=phase,
        predicted_s=(before.seconds, after.seconds),
        measured_s=(before_s, after_s),
        low_share=predicted.low_share,
        high_share=predicted.high_share,
    )
