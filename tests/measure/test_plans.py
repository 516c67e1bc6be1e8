"""Launches that plans are held to on several processes, one after the other, or from lists of public ones."""

import time
from pathlib import Path

import pytest

from tests.measure.plans.compare import Row
from tests.measure.plans.launches import Launch, of_lists
from tests.measure.plans.many import Manner, rows_of
from tuner.consultation.premises import Premises


def launch(name: str) -> Launch:
    return Launch(name=name, source="/dev/null", premises=Premises())


def made(one: Launch, *, layouts: bool) -> Row:
    if one.name == "slow":
        time.sleep(60)
    if one.name == "broken":
        raise ValueError("no such thing")
    return Row(launch=one.name, own_s=float(layouts))


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_launch_has_its_row_in_order(jobs: int) -> None:
    launches = [launch(name) for name in ("first", "slow", "broken", "last")]
    rows = list(rows_of(launches, Manner(layouts=True, limit_s=0.2), jobs=jobs, compare=made))
    assert [row.launch for row in rows] == ["first", "slow", "broken", "last"]
    assert [row.failures for row in rows[1:3]] == [
        ("takes more than 0.2 s",),
        ("raises ValueError: no such thing",),
    ]
    assert (rows[0].own_s, rows[3].own_s) == (1.0, 1.0)


def test_lists_name_the_launches_whose_repositories_are_here(tmp_path: Path) -> None:
    (tmp_path / "trees/owner+here/scripts").mkdir(parents=True)
    script = tmp_path / "trees/owner+here/scripts/run.sh"
    script.touch()
    listed = tmp_path / "list.txt"
    listed.write_text("# a comment\nowner/here\tscripts/run.sh\nowner/there\trun.sh\n")
    (only,) = of_lists([listed], [tmp_path / "none", tmp_path / "trees"], None)
    assert (only.name, only.source) == ("owner/here scripts/run.sh", str(script))
