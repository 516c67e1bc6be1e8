"""Plans of verl's own launches: no slower than advice, and as they say when they are read again."""

import pytest

from tests.measure.plans.__main__ import brief, summary
from tests.measure.plans.compare import Row, compared
from tests.measure.plans.launches import verl_launches
from tests.measure.plans.published import Published, Reason

SLICES = 202


@pytest.mark.sampled(SLICES)
@pytest.mark.parametrize("part", range(SLICES))
def test_a_plan_of_a_launch_is_no_worse_than_its_advice(part: int) -> None:
    rows = [compared(launch) for launch in list(verl_launches())[part::SLICES]]
    assert rows
    assert {row.launch: row.failures for row in rows if row.failures} == {}


def published(slower: float | None, *reasons: tuple[str, float]) -> Published:
    return Published(
        layout_s=None if slower is None else 100 * (1 + slower),
        slower=slower,
        reasons=tuple(Reason(axis=axis, value="", slower=share, fits=True) for axis, share in reasons),
    )


def test_the_summary_counts_published_layouts_by_how_much_slower_they_are() -> None:
    rows = [
        Row(launch="a", own_s=100.0, plan_s=100.0, published=published(0.0)),
        Row(launch="b", block_s=120.0, plan_s=100.0, published=published(0.12)),
        Row(launch="c", plan_s=100.0, published=published(0.3, ("states", 0.2), ("engine-layout", 0.1))),
        Row(launch="d", plan_s=100.0, published=published(None)),
        Row(launch="e", unread="no model"),
        Row(launch="f", plan_s=100.0, failures=("slower than advice",)),
    ]
    told = summary(rows)
    assert (told["launches"], told["planned"], told["beside advice that fits"]) == (6, 5, 2)
    assert told["faster than advice by more than 1 %"] == 1
    assert told["failures"] == {"slower than advice": 1}
    assert told["layouts"] == {
        "published layouts that fit": 3,
        "published layouts on which nothing fits": 1,
        "within 10% of the plan": 1,
        "slower by more than 15%": 1,
        "first reason of these": {"engine-layout": 1},
    }


def test_a_brief_row_has_no_lines_to_paste() -> None:
    reasons = [(f"axis-{number}", 1.0 / number) for number in range(1, 6)]
    row = Row(
        launch="a", plan_s=1.23456, plan=("a.b=1",), block=("a.c=2",), published=published(0.2, *reasons)
    )
    shown = brief(row)
    assert (shown.plan, shown.block, shown.plan_s, shown.launch) == ((), (), 1.23, "a")
    assert shown.published is not None and len(shown.published.reasons) == 3
