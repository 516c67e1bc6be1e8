"""A plan whose first settings are measured: what is run, what it corrects, and how it ranks."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec import structs

from tests.cli.runner import run
from tests.plan.test_measuring import ACTOR, APART, JOB, OPTIONS, PASTED
from tests.validate.parts import FakePart, figure, only
from tests.validate.report.test_render import report
from tuner.cli import plan_validation
from tuner.consultation.planned_clusters import Clusters
from tuner.consultation.planning import PlanAnswer, plan_answer
from tuner.consultation.premises import Premises
from tuner.render.schemas import schema
from tuner.timing import step_interval
from tuner.validate import plans
from tuner.validate.children import here
from tuner.validate.finalists import measured_plan
from tuner.validate.parts import ValidationPart
from tuner.validate.report.schema import Measurement, PartReport, Status
from tuner.validate.rollout import part as rollout_part
from tuner.validate.session import Session

GIVEN = ("plan", *OPTIONS, "--gpus-per-node", "2", "--validate", "2m")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """The sessions of a machine without a GPU, on which sharing sequences takes longer than is modelled."""
    return measured_by(monkeypatch)[0]


def measured_by(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Session], list[Session]]:
    """Fake parts, and the sessions whose passes are run and whose engines are started."""
    sessions: list[Session] = []
    engines: list[Session] = []

    def ratio(session: Session, alone: float, shared: float) -> float:
        return shared if session.subject.workload.actor.engine.parallel.ulysses > 1 else alone

    def training(session: Session) -> None:
        sessions.append(session)
        session.add(seconds("update_actor.seconds", ratio(session, 0.9, 40.0)))
        session.add(figure(name="update_actor.peak"))

    def rollout(session: Session) -> None:
        engines.append(session)
        session.add(seconds("rollout.engine_step", ratio(session, 0.4, 0.9)))

    parts = {
        ValidationPart.TRAINING_STEP: FakePart(training),
        ValidationPart.ROLLOUT: FakePart(rollout),
        ValidationPart.MACHINE: FakePart(training),
    }
    monkeypatch.setattr(plans, "PARTS", only(parts))
    monkeypatch.setattr(plan_validation, "DEVICE", "cpu")
    return sessions, engines


HALF = figure(name="rollout.engine_step", unit="seconds", measured=1.5, predicted=3.0, tolerance=None)


def planned_answer(*words: str) -> PlanAnswer:
    premises = Premises(verl_version="0.9.1", gpu="h100-sxm", gpus_per_node=2, mean_response=900)
    return plan_answer("/dev/null", ("--", *words), premises, Clusters(cards=("h100-sxm",)), prices={})


def seconds(name: str, ratio: float) -> Measurement:
    return figure(name=name, unit="seconds", measured=3.0 * ratio, predicted=3.0, tolerance=None)


def answer_of(*words: str) -> dict[str, Any]:
    result = run(*GIVEN, "--output-format", "json", *words)
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)
    jsonschema.validate(answer, schema("plan"), cls=jsonschema.Draft202012Validator)
    return answer


def test_finalists_are_measured_and_all_are_ranked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    passes, engines = measured_by(monkeypatch)
    answer = answer_of(*PASTED, *JOB, *APART)
    settings, measured = answer["plan"]["settings"], answer["measured"]
    assert len(passes) == len(answer["measure"])
    assert all(session.options.seconds_alone for session in passes)
    assert not any(session.subject.advice.recommendations for session in passes)
    first, *others = (session.options.budget_s for session in passes)
    assert first == pytest.approx(120, abs=0.1)  # its passes and its engine need as much
    assert 100 < others[-1] < 120  # all that the others left
    assert measured["budget_s"] == 120
    assert 0 < measured["spent_s"] < 20
    assert [session.subject.overrides for session in engines] == [passes[0].subject.overrides]
    assert sorted(one["place"] for one in measured["settings"]) == list(range(1, len(settings) + 1))
    seconds = [one["step"]["seconds"] for one in measured["settings"]]
    assert seconds == sorted(seconds)
    assert measured["settings"][-1]["rank"] > measured["settings"][0]["rank"] == 1
    for one in measured["settings"]:
        setting = settings[one["place"] - 1]
        assert one["modelled_s"] == setting["seconds"]
        finalist = setting["rank"] == 1
        of_phase = {it["phase"]: it for it in one["ratios"]}
        assert of_phase["rollout"]["ratio"] == pytest.approx(0.4)  # the same engine in all of them
        assert of_phase["rollout"]["own"] == (one["place"] == 1)  # once for all that have it
        shares = f"{ACTOR}.ulysses_sequence_parallel_size=2" in setting["overrides"]
        update = of_phase["update_actor"]
        assert update["borrowed"] != finalist
        assert update["ratio"] == pytest.approx((40.0 if shares else 0.9) if finalist else 6.0)
        if finalist and not shares:
            assert one["step"]["seconds"] < setting["seconds"]


def test_what_was_measured_stands_beside_each(passes: list[Session]) -> None:
    result = run(*GIVEN, *PASTED, *JOB, *APART)
    words = " ".join(result.out.split())
    assert result.code == 0, result.err
    assert "Measured on 1 x cpu" in words
    assert "update_actor " in result.out.partition("Measured on")[2]
    assert "in every setting whose phase has the same shape" in words
    assert "On a machine with such GPUs" not in words  # they have been


def test_without_a_gpu_one_message_says_so_before_anything_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned: list[object] = []
    nothing = here.Here(versions={}, missing=("torch sees no GPU",))
    monkeypatch.setattr(here, "look", lambda *_: nothing)
    monkeypatch.setattr("tuner.consultation.planning.plan_answer", lambda *_, **__: planned.append(1))
    result = run(*GIVEN, *PASTED, *JOB, *APART)
    assert result.code == 2
    assert result.out == ""
    assert "--validate: nothing can be measured here: torch sees no GPU" in result.err
    assert not planned


def test_a_setting_does_not_win_by_having_been_measured() -> None:
    """An engine is twice as fast as modelled; none of the other setting's shape was started."""
    first = planned_answer(*JOB, "trainer.n_gpus_per_node=2").plan.settings[0]
    sequences = first.workload.generator.max_sequences
    other = structs.replace(first, workload=first.workload.with_rollout(max_sequences=sequences + 1))
    part = PartReport(part=ValidationPart.ROLLOUT, status=Status.DONE, seconds=1.0, measurements=(HALF,))
    plan = measured_plan((first, other), {1: [report(parts=(part,))]}, budget_s=60, spent_s=30)
    by_place = {one.place: one for one in plan.settings}
    (borrowed,) = by_place[1].ratios
    assert (borrowed.phase.value, borrowed.ratio, borrowed.borrowed) == ("rollout", 0.5, True)
    assert [one.rank for one in plan.settings] == [1, 1]
    assert by_place[1].step.seconds < first.time.seconds  # as fast as it is likely to be
    modelled = step_interval(first.time, first.workload.cluster)
    assert by_place[1].step.high_s == modelled.high_s > by_place[2].step.high_s
    assert by_place[2].ratios[0].own and not by_place[2].ratios[0].borrowed


def test_what_another_setting_has_measured_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that have an engine in common start it once, and not every setting makes passes of its own."""
    passes, engines = measured_by(monkeypatch)
    answer = answer_of(*JOB, "trainer.n_gpus_per_node=2")
    started = [session.subject.workload.rollout for session in engines]
    assert len(set(started)) == len(started) < len(passes)
    assert len(passes) < len(answer["plan"]["settings"])


def test_where_no_engine_can_be_started_its_seconds_are_said_to_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PARTS", {**only({}), ValidationPart.ROLLOUT: rollout_part})
    monkeypatch.setattr(plan_validation, "DEVICE", "cpu")
    notes = answer_of(*PASTED, *JOB, *APART)["measured"]["notes"]
    assert "training-step of setting 1, 2: a test left it out." in notes
    assert (
        "rollout of setting 1: vLLM is not started without a GPU, so its seconds stay as modelled." in notes
    )


def test_only_the_first_process_of_a_node_plans(
    monkeypatch: pytest.MonkeyPatch, passes: list[Session]
) -> None:
    launch = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    for name, value in {**launch, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tuner.consultation.planning.plan_answer", lambda *_, **__: pytest.fail("planned"))
    result = run(*GIVEN, *PASTED, *JOB, *APART)
    assert (result.code, result.out, passes) == (0, "", [])


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    result = run("plan", str(tmp_path), "--validate", "soon")
    assert result.code == 2
    assert "'soon' is no time" in result.err
