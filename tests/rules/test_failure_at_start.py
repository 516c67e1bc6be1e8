"""What a rollout engine that did not start needs, by numbers that are given: a card has 1,005 bytes."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.rules.test_failure import CAPACITY, error
from tests.workloads import grpo_7b
from tuner.advise import failure
from tuner.advise.failure import Failure, explain_failure, free_share
from tuner.advise.needs import Measure
from tuner.out_of_memory.kinds import ErrorKind
from tuner.out_of_memory.reading import OutOfMemory
from tuner.units import GIB
from tuner.workload import Phase, Workload
from tuner.workload.place import FailurePlace

JOB = grpo_7b()  # half of the card, 8,192 tokens, 1,024 sequences


@pytest.fixture(autouse=True)
def no_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes room is another module's."""
    monkeypatch.setattr(failure, "remedies", lambda _advice, need, _write: (need,))


@pytest.fixture
def at_start(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An engine's error, with what the model says of the engine."""

    def say(
        said: OutOfMemory,
        *,
        cache: int = 0,
        room: int = 0,
        peak: int = 900,
        opened: bool = True,
        job: Workload = JOB,
    ) -> Failure:
        def other(workload: Workload) -> SimpleNamespace:
            share = round(1_000 * workload.generator.memory_fraction)
            return SimpleNamespace(peak_bytes=lambda phase: share if phase is Phase.ROLLOUT else 0)

        case = SimpleNamespace(
            workload=job,
            rollout=SimpleNamespace(kv_bytes=cache),
            capacity_bytes=CAPACITY,
            peak_bytes=lambda phase: peak if phase is Phase.ROLLOUT else 0,
            with_workload=other,
        )
        monkeypatch.setattr(failure, "Case", SimpleNamespace(of=lambda _workload, headroom: case))
        monkeypatch.setattr(failure, "opens", lambda _workload: opened)
        monkeypatch.setattr(failure, "room_bytes", lambda _workload: room)
        monkeypatch.setattr(failure, "standing", lambda *_arguments: None)
        advice: Any = SimpleNamespace(workload=job, headroom=0.1)
        return explain_failure(advice, said, FailurePlace(), None)  # type: ignore[arg-type]

    return say


@pytest.mark.parametrize(
    ("cache", "opened", "limit", "known"),
    [
        (50, True, 50 + 101, False),  # a tenth of the card more, which is more than there is
        (101, True, 202, True),
        (300, True, 600, True),  # twice what the model has
        (300, False, 0, True),  # any at all
        (50, False, 0, True),
    ],
)
def test_an_engine_without_a_cache(cache: int, opened: bool, limit: int, known: bool, at_start: Any) -> None:
    found = at_start(error(ErrorKind.NO_CACHE), cache=cache, opened=opened)
    assert found.starts is opened
    assert (found.need.measure, found.need.limit_bytes, found.need.known) == (Measure.CACHE, limit, known)


@pytest.mark.parametrize(
    ("figures", "opened", "limit", "known"),
    [
        ({"needed_gib": 3.0, "available_gib": 1.0}, True, -7 + 2 * GIB, True),
        ({"needed_gib": 0.1, "available_gib": 0.0}, True, -7 + 107_374_183, True),  # 107,374,182.4
        ({}, True, -7 + 101, False),
        ({"needed_gib": 3.0}, True, -7 + 101, False),
        ({"available_gib": 3.0}, True, -7 + 101, False),
        ({"needed_gib": 3.0, "available_gib": 1.0}, False, 0, True),
        ({}, False, 0, True),
    ],
)
def test_an_engine_whose_cache_is_too_short(
    figures: dict[str, float], opened: bool, limit: int, known: bool, at_start: Any
) -> None:
    found = at_start(error(ErrorKind.SHORT_CACHE, **figures), room=-7, opened=opened)
    assert (found.need.measure, found.need.limit_bytes, found.need.known) == (Measure.ROOM, limit, known)


@pytest.mark.parametrize("kind", [ErrorKind.NOT_FREE, ErrorKind.SAMPLER])
@pytest.mark.parametrize(
    ("figures", "limit", "known"),
    [
        ({"free_gib": 49.9, "total_gib": 100.0}, 490, True),  # a share of 0.49 was free
        ({"free_gib": 50.0, "total_gib": 100.0}, 900 - 101, False),  # as much as it has
        ({"free_gib": 90.0, "total_gib": 100.0}, 900 - 101, False),
        ({}, 900 - 101, False),
    ],
)
def test_an_engine_whose_share_was_not_free(
    kind: ErrorKind, figures: dict[str, float], limit: int, known: bool, at_start: Any
) -> None:
    need = at_start(error(kind, **figures)).need
    assert (need.measure, need.phase) == (Measure.PEAK, Phase.ROLLOUT)
    assert (need.limit_bytes, need.known) == (limit, known)


def test_what_an_engine_may_take_is_never_nothing(at_start: Any) -> None:
    assert at_start(error(ErrorKind.NOT_FREE), peak=50).need.limit_bytes == 1


@pytest.mark.parametrize(
    ("figures", "share"),
    [
        ({"free_gib": 55.01, "total_gib": 79.10}, 69),  # 69.5
        ({"free_gib": 55.01}, None),
        ({"total_gib": 79.10}, None),
        ({"free_gib": 55.01, "total_gib": 0.0}, None),
    ],
)
def test_the_share_that_was_free_is_in_whole_hundredths(figures: dict[str, float], share: int | None) -> None:
    assert free_share(error(ErrorKind.NOT_FREE, **figures)) == share


def test_settings_that_the_error_states_otherwise(at_start: Any) -> None:
    """By more than six thousandths, as messages round: of 0.5, of 8,192 and of 1,024 sequences."""
    stated = at_start(error(ErrorKind.NO_CACHE, fraction=0.5031, sequence_tokens=8_242.0, sequences=1_031.0))
    assert stated.other_settings == (
        ("fraction", 0.5031, 0.5),
        ("sequence_tokens", 8_242.0, 8_192.0),
        ("sequences", 1_031.0, 1_024.0),
    )
    near = error(ErrorKind.NO_CACHE, fraction=0.5029, sequence_tokens=8_240.0, sequences=1_030.0)
    assert at_start(near).other_settings == ()
    assert at_start(error(ErrorKind.NO_CACHE)).other_settings == ()


def test_an_engine_of_no_length_is_built_for_the_models_and_runs_no_more_than_a_step_has(
    at_start: Any,
) -> None:
    job = JOB.with_rollout(max_model_tokens=None, max_batched_tokens=100)
    stated = at_start(error(ErrorKind.NO_CACHE, sequence_tokens=32_768.0, sequences=100.0), job=job)
    assert stated.other_settings == ()
