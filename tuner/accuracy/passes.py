"""Seconds of measured passes beside their predictions."""

import re
from collections.abc import Iterator
from math import isfinite
from statistics import median
from typing import Any

from msgspec.structs import replace

from tuner.accuracy.measured_files import MeasuredCase, MeasuredFile
from tuner.accuracy.seconds import LEAST_S, MeasurementOrigin, TimedFile, TimedPhase, UnpredictedRecord
from tuner.accuracy.workload import workload_of
from tuner.errors import TunerError
from tuner.gpus import find_gpu
from tuner.hardware import Gpu
from tuner.timing import Interval, PhaseTime, interval, step_time
from tuner.workload import Lengths, Phase, Workload

_Timed = tuple[str, MeasuredCase, float, MeasurementOrigin]  # its name in the file, what was run, its seconds
_CARD = re.compile(r"(?:\d+ x )?([^(,]+)")  # "2 x NVIDIA H200 (143771 MiB), driver 580.159.04"


def timed_passes(source: str, measured: MeasuredFile) -> TimedFile:
    """The passes of a file whose seconds were measured.

    A report of a validation tells the times of repeated passes among its measurements; without one the
    seconds of a case are those of a single call, unless it tells those of each repetition.

    Args:
        source: the file's name.
        measured: its content. Its ``hardware`` begins with the card, as in ``2 x NVIDIA H200``.
    """
    timed = list(_of_report(measured) if measured.validation is not None else _of_cases(measured))
    if not timed:
        return TimedFile(source=source)
    try:
        gpu = card_of(measured)
    except TunerError as error:
        return TimedFile(source=source, left_out=(UnpredictedRecord(case=source, reason=error.message),))
    phases, left_out = [], []
    for name, case, seconds, origin in timed:
        where = f"{source}: {name}"
        try:
            predicted = pass_interval(workload_of(case), gpu, training=case.trains)
        except TunerError as error:
            left_out.append(UnpredictedRecord(case=where, reason=error.message))
            continue
        phases.append(
            TimedPhase(
                case=where,
                phase=phase_of(case).value,
                origin=origin,
                model=case.model.rstrip("/").rsplit("/", 1)[-1],
                gpu=gpu.name,
                gpus=case.world_size,
                predicted_s=predicted.seconds,
                low_s=predicted.low_s,
                high_s=predicted.high_s,
                measured_s=seconds,
            )
        )
    return TimedFile(source=source, phases=tuple(phases), left_out=tuple(left_out))


def card_of(measured: MeasuredFile) -> Gpu:
    """The profile of the card that a file's passes ran on.

    Raises:
        InputError: no profile has the name.
    """
    match = _CARD.match(measured.hardware)
    return find_gpu(match[1].strip() if match else measured.hardware)


def pass_interval(workload: Workload, gpu: Gpu, *, training: bool) -> Interval:
    """The modelled seconds of a pass by itself, with their interval; see :func:`pass_time`."""
    cluster = replace(workload.cluster, gpu=gpu)
    return interval((pass_time(workload, gpu, training=training),), cluster, in_run=False)


def pass_time(workload: Workload, gpu: Gpu, *, training: bool) -> PhaseTime:
    """The modelled seconds of a pass alone, whose sequences all have their full length.

    Args:
        workload: as :func:`~tuner.accuracy.workload.workload_of` gives it.
        gpu: the card.
        training: of its update; else of its log-probabilities.
    """
    batch = workload.batch
    lengths = Lengths(mean_prompt=batch.max_prompt_tokens, mean_response=batch.max_response_tokens)
    alone = replace(
        workload,
        batch=replace(batch, lengths=lengths),
        cluster=replace(workload.cluster, gpu=gpu),
    )
    # How many sequences run at once concerns the rollout alone, which is no part of this.
    time = step_time(alone, concurrent_sequences=1).phase(
        Phase.UPDATE_ACTOR if training else Phase.OLD_LOG_PROB
    )
    assert time is not None  # such a workload has both
    return time


def phase_of(case: MeasuredCase) -> Phase:
    """The phase of a job that the pass is one of."""
    if case.trains:
        return Phase.UPDATE_CRITIC if case.critic else Phase.UPDATE_ACTOR
    if case.forward_only_engine:
        return Phase.REWARD if case.critic else Phase.REF_LOG_PROB
    return Phase.VALUES if case.critic else Phase.OLD_LOG_PROB


def _of_cases(measured: MeasuredFile) -> Iterator[_Timed]:
    for index, case in enumerate(measured.cases):
        warm = bool(case.repeated_seconds)
        seconds = median(case.repeated_seconds) if warm else case.seconds
        if seconds is not None and seconds >= LEAST_S:
            yield (
                f"cases[{index}]",
                case,
                seconds,
                MeasurementOrigin.WARM_PASS if warm else MeasurementOrigin.SINGLE_PASS,
            )


def _of_report(measured: MeasuredFile) -> Iterator[_Timed]:
    """Repeated passes of a report: the case of the phase, with the micro-batches that were timed."""
    reported = {str(figure.get("name", "")): figure for figure in _measurements(measured.validation)}
    for index, case in enumerate(measured.cases):
        figure = reported.get(f"{phase_of(case).value}.seconds", {})
        details, seconds = figure.get("details"), figure.get("measured")
        tokens = details.get("tokens") if isinstance(details, dict) else None
        if not isinstance(tokens, int) or not isinstance(seconds, (int, float)):
            continue
        micro_batches, rest = divmod(tokens, case.tokens)
        # Another pass of the same phase, such as the largest that fits, was not what was timed.
        same = not rest and 1 <= micro_batches <= case.micro_batches and figure.get("extrapolated") is None
        if same and isfinite(seconds) and seconds >= LEAST_S:
            timed = case.model_copy(update={"micro_batches": micro_batches})
            yield f"cases[{index}]", timed, seconds, MeasurementOrigin.WARM_PASS


def _measurements(validation: Any) -> Iterator[dict[str, Any]]:
    """The figures of a report, whose content nothing has checked."""
    parts = validation.get("parts") if isinstance(validation, dict) else None
    for part in parts if isinstance(parts, list) else ():
        figures = part.get("measurements") if isinstance(part, dict) else None
        yield from (figure for figure in figures or () if isinstance(figure, dict))
