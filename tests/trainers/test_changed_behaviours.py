"""What differs between releases of one launch can be told: by a key, or in words."""

from itertools import pairwise

import pytest

from tests.trainers.launches import ALL, workload_of
from tuner.advise.comparison import field_changes
from tuner.errors import TunerError
from tuner.render.field_words import field_words, has_words
from tuner.trainers.verl.releases import BUNDLED
from tuner.workload import Workload

PAIRS = list(pairwise(BUNDLED[1:]))


def read(launch: str, version: str) -> Workload | None:
    try:
        return workload_of(ALL[launch], version)
    except TunerError:
        return None


@pytest.mark.parametrize("launch", ALL)
def test_every_field_that_releases_read_differently_has_words(launch: str) -> None:
    paths = set()
    for older, newer in PAIRS:
        before, after = read(launch, older), read(launch, newer)
        if before is not None and after is not None:
            paths |= {change.path for change in field_changes(before, after)}
    assert paths
    assert sorted(path for path in paths if not has_words(path)) == []


def test_a_field_of_several_models_is_told_once() -> None:
    paths = ("actor", "engine", "keeps_inputs"), ("critic", "engine", "keeps_inputs")
    assert field_words(*paths) == "actor, critic: embedded tokens are held until the optimizer steps"
    assert field_words(("rollout", "no_such_field")) == "rollout.no_such_field"
