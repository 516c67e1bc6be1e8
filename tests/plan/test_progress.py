"""What is said while a search goes on."""

import io

from tests.workloads import cluster
from tuner.plan.search import REFUSED, SearchProgress
from tuner.render.plan_progress import progress_line, progress_on


def test_a_line_has_the_settings_what_ruled_most_of_them_out_and_the_best() -> None:
    rejected = {"update_actor": 1200, "wake_up": 3, REFUSED: 40, "rollout": 500}
    progress = SearchProgress(looked_at=2000, size=5000, rejected=rejected, best_s=151.6)
    line = progress_line(cluster(nodes=2), progress)
    assert line == (
        "16 x h100-sxm: 2,000 settings; best 152 s; failed: update_actor 1,200, rollout 500, "
        "checks of the trainer 40"
    )


def test_nothing_is_said_of_a_best_that_there_is_not() -> None:
    progress = SearchProgress(looked_at=100, size=5000, rejected={}, best_s=None)
    assert "none fits yet" in progress_line(cluster(), progress)


def test_where_nobody_watches_nothing_is_written() -> None:
    stream = io.StringIO()
    with progress_on(stream) as watch:
        assert watch is None
    assert not stream.getvalue()
