"""What a job's validation between its steps takes, beside the advice on the step."""

from msgspec import Struct

from tuner.advise import Advice
from tuner.rules.case import figures
from tuner.timing.validating import ValidationTime, validation_time
from tuner.trainers.protocol import Loaded
from tuner.workload.validation import Validating


class PricedValidation(Struct, frozen=True, kw_only=True):
    """How a job validates, and what one validation takes."""

    how: Validating
    time: ValidationTime
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
    block = advice.combination
    if block is None:
        return PricedValidation(how=how, time=time)
    changed = figures(block.workload).rollout.concurrent_sequences
    with_block = validation_time(block.workload, how, rows=rows, concurrent_sequences=changed)
    return PricedValidation(how=how, time=time, with_block=with_block)
