"""Hours and price of a whole job."""

from msgspec import Struct

from tuner.plan.answer import PlannedSetting

_SECONDS_OF_HOUR = 3600


class JobTotals(Struct, frozen=True, kw_only=True):
    """What all steps of a job take, without checkpoints, validation and the start."""

    steps: int
    hours: float
    ends: tuple[float, float]  # the least and the most hours
    gpu_hours: float
    price: float | None  # None where nobody says what a GPU-hour costs


def whole_job(setting: PlannedSetting, steps: int | None, price: float | None) -> JobTotals | None:
    """The whole job with a setting; None where nobody says how many steps it has."""
    if steps is None or setting.time.seconds <= 0:
        return None
    step, gpus = setting.step, setting.workload.cluster.gpus
    hours = steps * step.seconds / _SECONDS_OF_HOUR
    return JobTotals(
        steps=steps,
        hours=hours,
        ends=(steps * step.low_s / _SECONDS_OF_HOUR, steps * step.high_s / _SECONDS_OF_HOUR),
        gpu_hours=hours * gpus,
        price=None if price is None else hours * gpus * price,
    )
