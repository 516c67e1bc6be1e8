"""What a job's validation between its steps takes, beside the advice on the step."""

from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from tuner.advise import Advice
from tuner.rules.case import figures
from tuner.timing.validating import ValidationTime, validation_time
from tuner.trainers.protocol import Loaded
from tuner.workload import Workload
from tuner.workload.validation import KnownRows, Validating

_LEAST_SAVED = 0.03  # of a step with its validation: less is not worth a line
_NEARLY = 1.05  # times the least seconds: larger batches for less are not worth it
_COUNTED = (KnownRows.SAID, KnownRows.NAMED)


class LargerBatches(Struct, frozen=True, kw_only=True):
    """A validation in fewer and larger batches, whose answers are the same."""

    prompts_at_a_time: int
    time: ValidationTime


class PricedValidation(Struct, frozen=True, kw_only=True):
    """How a job validates, and what one validation takes."""

    how: Validating
    time: ValidationTime
    larger: LargerBatches | None = (
        None  # None where that saves little, or nobody says how many rows there are
    )
    with_block: ValidationTime | None = None  # the same with what is to be pasted; None where nothing is

    def share(self, step_s: float) -> float:
        """What validation adds to a step, as a share of the step with it."""
        added = self.time.step_seconds or 0.0
        return added / (added + step_s) if added else 0.0


def priced_validation(loaded: Loaded, advice: Advice, rows: int | None) -> PricedValidation | None:
    """The price of a validation; None of a job without, and where an engine's cache or the step is not there.

    A job that generates on GPUs of its own may validate there while others train: nothing is said of it.

    Args:
        loaded: the configuration.
        advice: on its step.
        rows: of the validation data; None where nobody says.
    """
    how = loaded.validating
    if how is None or advice.validates_only or advice.rollout is None:
        return None
    sequences = advice.rollout.concurrent_sequences
    if advice.time.apart or advice.time.seconds <= 0 or sequences < 1:
        return None
    time = validation_time(advice.workload, how, rows=rows, concurrent_sequences=sequences)
    priced = PricedValidation(how=how, time=time)
    priced = replace(priced, larger=_larger(priced, advice.workload, rows, sequences, advice.time.seconds))
    block = advice.combination
    if block is None:
        return priced
    changed = figures(block.workload).rollout.concurrent_sequences
    with_block = validation_time(block.workload, how, rows=rows, concurrent_sequences=changed)
    return replace(priced, with_block=with_block)


def _larger(
    priced: PricedValidation, workload: Workload, rows: int | None, sequences: int, step_s: float
) -> LargerBatches | None:
    """The smallest batches that take hardly longer than one of all rows, where they save enough of a step."""
    how, time = priced.how, priced.time
    if how.drops_rest or not how.batch_key or how.every_steps is None or time.rows_known not in _COUNTED:
        return None
    batches, larger = time.batches, list[LargerBatches]()
    while batches > 1:
        batches = ceil(batches / 2)
        size = ceil(time.rows / batches)
        other = replace(how, prompts_at_a_time=size)
        taken = validation_time(workload, other, rows=rows, concurrent_sequences=sequences)
        larger.append(LargerBatches(prompts_at_a_time=size, time=taken))
    least = min((one.time.time.seconds for one in larger), default=0.0)
    best = next((one for one in larger if one.time.time.seconds <= _NEARLY * least), None)
    if best is None:
        return None
    now, then = time.time.seconds / how.every_steps, best.time.time.seconds / how.every_steps
    return best if now - then >= _LEAST_SAVED * (step_s + now) else None
