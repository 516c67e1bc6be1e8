"""The clock of the sequences that run in a simulated engine."""

from tuner.timing.generation.load import Waiting
from tuner.timing.generation.running import Running


def waiting(length: int) -> Waiting:
    return Waiting(count=1, place=0, length=length, new=0.0)


def test_the_next_end_comes_before_a_limit_that_is_farther() -> None:
    running = Running()
    assert running.steps_until_end(50) == 50  # nobody runs
    running.clock = 1
    running.add(1, waiting(8))
    running.add(1, waiting(30))
    assert running.steps_until_end(50) == 7
    assert running.steps_until_end(3) == 3
