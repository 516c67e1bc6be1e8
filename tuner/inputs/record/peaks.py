"""Figures over the phases that the workers of a run have recorded."""

from collections import defaultdict
from collections.abc import Iterable

from tuner.inputs.record.form import Ended
from tuner.inputs.record.read import RunRecord
from tuner.workload.observed_run import PhasePeak
from tuner.workload.step import Phase


def phase_peaks(record: RunRecord) -> tuple[PhasePeak, ...]:
    """The highest memory of each phase over all ranks and steps, in the order of a step."""
    ended: dict[Phase, list[Ended]] = defaultdict(list)
    for worker in record.workers:
        for line in worker.phases:
            if line.failed is None and line.allocated_bytes is not None:
                ended[line.phase].append(line)
    sampled: dict[Phase, list[int | None]] = defaultdict(list)
    for card in record.cards:
        sampled[card.phase] += card.used_bytes
    return tuple(
        PhasePeak(
            phase=phase,
            allocated_bytes=max(line.allocated_bytes or 0 for line in ended[phase]),
            reserved_bytes=max(line.reserved_bytes or 0 for line in ended[phase]),
            process_bytes=_highest(line.process_bytes for line in ended[phase]),
            card_bytes=_highest([line.card_bytes for line in ended[phase]] + sampled[phase]),
        )
        for phase in Phase
        if phase in ended
    )


def seconds_by_step(record: RunRecord) -> dict[int, dict[Phase, float]]:
    """The seconds of each phase of each step: of the rank that took longest; several in one step add up."""
    steps: dict[int, dict[Phase, float]] = defaultdict(dict)
    for worker in record.workers:
        own: dict[tuple[int, Phase], float] = defaultdict(float)
        for line in worker.phases:
            if line.failed is None:
                own[line.step, line.phase] += line.seconds
        for (step, phase), seconds in own.items():
            steps[step][phase] = max(seconds, steps[step].get(phase, 0.0))
    return dict(steps)


def lengths_by_step(record: RunRecord) -> dict[int, tuple[float, float]]:
    """Mean tokens of a sequence and of a response of each step, where the batches of workers tell both."""
    batches: dict[int, list[Ended]] = defaultdict(list)
    for worker in record.workers:
        for line in worker.phases:
            if line.sequences and line.tokens is not None and line.response_tokens:
                batches[line.step].append(line)
    means = {}
    for step, lines in batches.items():
        sequences = sum(line.sequences or 0 for line in lines)
        tokens = sum(line.tokens or 0 for line in lines)
        means[step] = (tokens / sequences, sum(line.response_tokens or 0 for line in lines) / sequences)
    return means


def _highest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
