r"""Seconds of a validation: what the rollout engine takes to answer the rows of the validation data.

The same simulation as a step's generation, at the same lengths, of as many sequences as the rows have
responses: R batches, one after the other, each with its part of them. Where a trainer hands over the weights
whenever it generates, each batch has that, too:

.. math::
    t = R \cdot (t_{weights} + t_{sleep}) + t_{generation}

Not counted: rewards, which a function of the user computes, and what is decoded and logged. Prompts and
responses are taken to be as long as those of training.

Source: verl 0.3.0.post1 to 0.9.1 ``trainer/ppo/ray_trainer.py`` (``_validate``), 0.9.1
``trainer/ppo/v1/trainer_base.py`` there.
"""

from math import ceil
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.timing.decode import RolloutInput
from tuner.timing.estimate import PhaseTime, StepTime, rollout_time
from tuner.timing.sleeping import falling_asleep_parts
from tuner.timing.weight_sync import sync_parts
from tuner.workload import Phase, Workload
from tuner.workload.validation import KnownRows, Validating

_EXAMPLE_ROWS = 1000  # that are priced where nobody says how many there are


class ValidationTime(Struct, frozen=True, kw_only=True):
    """What a validation takes, each time that the job validates."""

    time: StepTime  # of generating, and of new weights where each batch has them
    rows: Annotated[int, Meta(description="of the validation data")]
    rows_known: Annotated[KnownRows, Meta(description="what is known of their number")]
    batches: Annotated[int, Meta(description="in which they are generated, one after the other")]
    every_steps: Annotated[int | None, Meta(description="null: not between steps")]
    before_training: bool

    @property
    def step_seconds(
        self,
    ) -> Annotated[float | None, Meta(description="spread over the steps from one validation to the next")]:
        """What it comes to in a step, spread over those from one validation to the next."""
        return None if self.every_steps is None else self.time.seconds / self.every_steps


def validation_time(
    workload: Workload, validating: Validating, *, rows: int | None, concurrent_sequences: int
) -> ValidationTime:
    """The seconds of one validation of a job that generates on the GPUs that train.

    Args:
        workload: the job.
        validating: how it validates.
        rows: of the validation data; None where nobody says.
        concurrent_sequences: sequences with the room planned for them that the KV cache of one rollout
            replica holds.
    """
    priced_rows, rows_known = validating.rows(rows, example=_EXAMPLE_ROWS)
    batches = ceil(priced_rows / (validating.prompts_at_a_time or priced_rows))
    return ValidationTime(
        time=StepTime(phases=_phases(workload, validating, priced_rows, batches, concurrent_sequences)),
        rows=priced_rows,
        rows_known=rows_known,
        batches=batches,
        every_steps=validating.every_steps,
        before_training=validating.before_training,
    )


def _phases(
    workload: Workload, validating: Validating, rows: int, batches: int, concurrent_sequences: int
) -> tuple[PhaseTime, ...]:
    """Generation of all rows, then what hands over the weights before each batch, and ends with sleep."""
    batch = replace(
        workload.batch,
        prompts=rows,
        responses_per_prompt=validating.responses_per_prompt,
        rounds=batches,
        group_filter=None,
        greedy_baseline=None,
    )
    job = replace(workload, batch=batch)
    generation = rollout_time(RolloutInput.of(job), concurrent_sequences)
    if not validating.sends_weights:
        return (generation,)
    parts = sync_parts(job.at_rest)
    for cause, seconds in falling_asleep_parts(job).items():
        parts[cause] = parts.get(cause, 0.0) + seconds
    whole = tuple((cause, batches * seconds) for cause, seconds in parts.items())
    return generation, PhaseTime(
        phase=Phase.UPDATE_WEIGHTS, seconds=sum(seconds for _, seconds in whole), parts=whole
    )
