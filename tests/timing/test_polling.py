"""The wait until a trainer that asks at intervals whether all responses are there asks again."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.timing.estimate import step_time
from tuner.timing.uncertainty import phase_interval
from tuner.workload import Controller, Phase


def test_a_rollout_ends_when_the_trainer_looks() -> None:
    """Half an interval in the mean; none to a whole one."""
    job = workloads.grpo_7b()
    told, polled = (
        step_time(replace(job, controller=Controller(poll_s=seconds)), concurrent_sequences=64).phases[0]
        for seconds in (0.0, 60.0)
    )
    assert told.phase is Phase.ROLLOUT and "polling" not in dict(told.parts)
    assert dict(polled.parts)["polling"] == 30.0
    assert polled.seconds == pytest.approx(told.seconds + 30)
    short, long = (phase_interval(time, job.cluster) for time in (told, polled))
    assert long.low_s - short.low_s < 30 < long.high_s - short.high_s
