"""What the metrics of verl's trainers of supervised fine-tuning say of a job.

Sources: verl 0.6.0 to 0.7.0 ``trainer/fsdp_sft_trainer.py`` (``training_step``: ``train/time(s)``, of the
whole step); 0.6.0 to 0.9.1 ``trainer/sft_trainer.py`` (``train/global_tokens``, ``train/mfu``), 0.8.0
``workers/engine_workers.py`` (``_postprocess_output``: memory of each rank, of which the first one logs).
Releases before 0.6.0 print the loss alone.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tuner.inputs.log.metrics import StepMetrics
from tuner.language import N_
from tuner.trainers.verl.flop_utilisation import utilisation
from tuner.trainers.verl.observed_steps import highest_of, median_of, warm_steps
from tuner.units import GIB
from tuner.workload import Phase, Workload
from tuner.workload.observed_run import ObservedRun, PeakMemory

_SECONDS, _TOKENS, _UTILISATION = "train/time(s)", "train/global_tokens", "train/mfu"
_ALLOCATED, _RESERVED = "perf/max_memory_allocated_gb", "perf/max_memory_reserved_gb"
_TELLING = (_SECONDS, _TOKENS, _UTILISATION, _ALLOCATED)


def observed_fine_tuning(steps: Sequence[StepMetrics], workload: Workload) -> ObservedRun | None:
    """What the steps of a fine-tuning run report; None where no step tells a time, tokens or memory.

    Args:
        steps: with their metrics, in order.
        workload: the job as the release reads it; it generates nothing.
    """
    telling = [step for step in steps if any(name in step.values for name in _TELLING)]
    warm = warm_steps(telling)
    if not warm:
        return None
    tokens = median_of(warm, _TOKENS)
    mean = None if tokens is None else tokens / workload.batch.sequences
    measured = median_of(warm, _SECONDS)
    worked_out = None if measured is not None else _seconds_of_utilisation(warm, workload, mean)
    seconds = measured if measured is not None else worked_out
    host = highest_of(telling, "perf/cpu_memory_used_gb")
    return ObservedRun(
        first_step=warm[0].step,
        last_step=warm[-1].step,
        steps=len(warm),
        seconds=() if seconds is None else ((Phase.TRAIN, seconds),),
        seconds_from=None if worked_out is None else _UTILISATION,
        step_seconds=measured,
        mean_response_tokens=mean,
        memory=_memory(telling),
        host_bytes=None if host is None else round(host * GIB),
    )


def _seconds_of_utilisation(
    steps: Sequence[StepMetrics], workload: Workload, mean: float | None
) -> float | None:
    """The seconds in which the card does as many FLOP as the trainer counts at the printed utilisation.

    Sequences count with their mean length, so that these are a little too few where lengths differ much.
    """
    printed = median_of(steps, _UTILISATION)
    if not printed or printed < 0 or mean is None or not 1 <= mean <= workload.batch.max_response_tokens:
        return None
    lengths = replace(workload.batch.lengths, mean_response=round(mean))
    job = replace(workload, batch=replace(workload.batch, lengths=lengths))
    of_one_second = utilisation(job, 1.0)
    return None if of_one_second is None else of_one_second / printed


def _memory(steps: Sequence[StepMetrics]) -> PeakMemory | None:
    allocated, reserved = highest_of(steps, _ALLOCATED), highest_of(steps, _RESERVED)
    if allocated is None:
        return None
    return PeakMemory(
        allocated_bytes=round(allocated * GIB),
        reserved_bytes=None if reserved is None else round(reserved * GIB),
        holds_engine=False,
        taken=N_("at the end of each step, of the first rank"),
    )
