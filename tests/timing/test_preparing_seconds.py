"""What a host took to prepare a measured step of a rollout engine, by round prices of the step."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.timing.test_step_prices import GAPS, PRICES, REDUCTIONS
from tuner.timing.decode import RolloutInput
from tuner.timing.generation import step
from tuner.timing.generation.step import preparing_seconds


@pytest.fixture
def measured_step(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is said of the host of a step of the prices above, with what changes in them."""
    inputs = RolloutInput.of(workloads.grpo_7b())  # 1,280 tokens in the middle of a response

    def host(seconds: float, **changes: Any) -> float | None:
        monkeypatch.setattr(step, "step_prices", lambda _inputs: replace(PRICES, **changes))
        return preparing_seconds(inputs, 20, seconds)

    return host


# 3 ms of weights, 10 ms x 1.28 x 0.2 of the cache, and as above: 6.63 ms. The rate at which it reads may be
# 0.60 in place of 0.78: 1.3 times as much.
READING = 0.003 + 0.00256 + 20 * 4e-6 + REDUCTIONS + GAPS


def test_a_host_that_follows_the_gpu_is_told_where_it_takes_long_beside_what_the_gpu_may(
    measured_step: Any,
) -> None:
    # 0.3 x 6.63 ms = 1.989 ms may be the GPU's: a quarter of the host's at least at 7.956 ms.
    assert measured_step(READING + 0.008) == pytest.approx(0.008)
    assert measured_step(READING + 0.0079) is None
    # Where launching takes longer than the GPU, it follows that.
    slow = {"largest_graph": 0, "launched": 1e-4}
    assert measured_step(0.028 + 0.008, **slow) == pytest.approx(0.008)
    assert measured_step(0.028 + 0.0079, **slow) is None


def test_a_host_beside_the_gpu_is_told_where_the_gpu_cannot_have_decided(measured_step: Any) -> None:
    beside = {"overlaps": True}
    assert measured_step(1.3 * READING + 1e-5, **beside) == pytest.approx(1.3 * READING + 1e-5)
    assert measured_step(1.3 * READING - 1e-5, **beside) is None
    launching = {"overlaps": True, "largest_graph": 0}  # 2.8 ms are those of launching
    assert measured_step(0.012, **launching) == pytest.approx(0.012 - 0.0028)
    assert measured_step(0.027, overlaps=True, largest_graph=0, launched=1e-4) is None
