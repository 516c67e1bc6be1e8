"""A plan that is interrupted: what was known by then is told, and nothing else is begun."""

from collections.abc import Iterator

import pytest

from tests.cli.runner import run
from tests.plan.jobs import TYPED
from tuner.consultation import planned_everywhere
from tuner.consultation.until_stopped import UntilStopped

SMALL = ("/dev/null", "--model", "qwen2.5-0.5b", "--verl-version", "0.9.1", "--gpu", "2xh100-sxm")


def interrupted(*made: int) -> Iterator[int]:
    yield from made
    raise KeyboardInterrupt


def test_what_was_made_before_an_interruption_stays_and_nothing_is_made_after_it() -> None:
    until = UntilStopped()
    assert until.all((1, 2)) == (1, 2) and not until.stopped
    assert until.all(interrupted(1, 2)) == (1, 2) and until.stopped
    assert until.all(interrupted()) == until.all((1,)) == ()


def test_what_an_item_says_of_itself_stops_the_next_ones() -> None:
    until = UntilStopped()
    assert until.all((1, 2), ends=lambda one: one == 2) == (1, 2)
    assert until.all((3,)) == ()


def test_the_first_cluster_is_told_where_the_next_one_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only a search, but whatever goes before one may be interrupted."""

    def other_plans(*_given: object) -> Iterator[object]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(planned_everywhere, "other_plans", other_plans)
    vary = ("--vary", "data.train_batch_size=64")
    result = run("plan", *SMALL, *vary, "--", *TYPED)
    assert result.code == 0, result.err
    words = " ".join(result.out.split())
    assert "Best on 2 x h100-sxm" in words and "Varied" not in words
    assert "Stopped before all that was asked for had been planned: some of it is missing." in words
