"""A job whose log ends because memory ran out: how it ended, and the advice that is left for it."""

from msgspec import Struct

from tuner.advise import Advice
from tuner.advise.beneath_observed import beneath_observed
from tuner.advise.failure import Failure, explain_failure
from tuner.consultation.job import JobReading
from tuner.inputs.log.run_log import RunLog
from tuner.out_of_memory.kinds import ErrorKind


class RanOut(Struct, frozen=True, kw_only=True):
    """How the job of a log ran out of memory, and the advice on it."""

    failure: Failure
    keys: tuple[str, ...]  # of the trainer, that decide what the place takes
    step: int | None  # in which it was, by the steps before; None where none ended
    advice: Advice  # without what takes more memory than was seen to be there


def ran_out(job: JobReading, log: RunLog, advice: Advice) -> RanOut | None:
    """How a job ended; None where a process was merely killed.

    Args:
        job: as the configuration of the log has it.
        log: which ends with an error.
        advice: on the job, as the model sees it.
    """
    error = log.out_of_memory
    if error is None or error.kind is ErrorKind.KILLED:
        return None
    failure = explain_failure(advice, error, job.loaded.trainer.place_of(error.calls), job.reading.write)
    ended = max((step.step for step in log.steps), default=0)
    return RanOut(
        failure=failure,
        keys=job.loaded.deciding_keys(failure.place, advice.workload),
        step=ended + 1 if ended and not failure.place.before_steps else None,
        advice=beneath_observed(advice, failure),
    )
