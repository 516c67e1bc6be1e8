"""Plans of verl's own launches: no slower than advice, and as they say when they are read again."""

import pytest

from tests.measure.plans.compare import compared
from tests.measure.plans.launches import verl_launches

SLICES = 202


@pytest.mark.sampled(SLICES)
@pytest.mark.parametrize("part", range(SLICES))
def test_a_plan_of_a_launch_is_no_worse_than_its_advice(part: int) -> None:
    rows = [compared(launch) for launch in list(verl_launches())[part::SLICES]]
    assert rows
    assert {row.launch: row.failures for row in rows if row.failures} == {}
