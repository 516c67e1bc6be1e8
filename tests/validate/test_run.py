from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.memory.test_accuracy import PASS
from tests.validate.parts import MACHINE, Clock, FakePart, Heard, figure, only, options, subject, verdict
from tuner.accuracy import MeasuredCase, read_measured
from tuner.validate import plans
from tuner.validate.children import processes
from tuner.validate.children.call import CallFailure, Failed, Setup
from tuner.validate.parts import ValidationPart
from tuner.validate.plans import plan
from tuner.validate.report.schema import Outcome, PartReport, Status, ValidationFile
from tuner.validate.run import BEGUN_WITH, RESERVE_S, Run
from tuner.validate.session import NotHereError, OutOfBudgetError, Planned, Session

the_subject = cache(subject)
CASE = MeasuredCase.model_validate(PASS)


class Bench:
    """Runs fake parts with fake processes under a fake clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self.heard = Heard()
        self.timeouts: list[float] = []
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(processes, "run", self._process)

    def _process(self, worker: Any, arguments: tuple[Any, ...], **settings: Any) -> Any:
        """``worker`` is what comes of the call, the argument the seconds that it takes."""
        self.timeouts.append(settings["timeout_s"])
        self.clock.now += arguments[0]
        if worker == "interrupt":
            raise KeyboardInterrupt
        return worker

    def run(
        self,
        parts: Mapping[ValidationPart, FakePart],
        budget_s: float = 120.0,
        memory_limit_bytes: int | None = None,
    ) -> ValidationFile:
        self.monkeypatch.setattr(plans, "PARTS", only(parts))
        asked = replace(options(budget_s), memory_limit_bytes=memory_limit_bytes)
        planned = plan(the_subject(), asked, tuple(parts))
        return Run(
            subject=the_subject(),
            options=asked,
            machine=MACHINE,
            setup=Setup(device="cpu"),
            progress=self.heard,
            clock=self.clock,
        ).execute(planned)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def calls(*outcomes: Any, seconds: float = 1.0, expected: float = 1.0, **settings: Any) -> FakePart:
    def act(session: Session) -> None:
        for outcome in outcomes:
            session.call(outcome, seconds, title="a pass", expected_s=expected, **settings)

    return FakePart(act)


def reports(file: ValidationFile) -> dict[ValidationPart, tuple[Status, str]]:
    return {report.part: (report.status, report.reason) for report in file.validation.parts}


def test_parts_share_what_is_left_and_unused_time_flows_on(bench: Bench) -> None:
    seen: dict[str, float] = {}

    def part(name: str, uses: float) -> FakePart:
        def act(session: Session) -> None:
            seen[name] = session.left_s
            bench.clock.now += uses

        return FakePart(act)

    bench.run(
        {
            ValidationPart.MACHINE: part("machine", 3.0),
            ValidationPart.TRAINING_STEP: part("training", 50.0),
            ValidationPart.SEARCH: part("search", 5.0),
        }
    )
    assert seen["machine"] < seen["training"]
    assert seen["machine"] + seen["training"] < 120
    assert seen["search"] == 120 - 3 - 50 - RESERVE_S


@pytest.mark.parametrize("limit", [None, 60 << 30])
def test_the_report_holds_the_memory_limit(bench: Bench, limit: int | None) -> None:
    file = bench.run({ValidationPart.MACHINE: FakePart()}, memory_limit_bytes=limit)
    assert file.validation.memory_limit_bytes == limit


def test_a_part_left_out_takes_no_share(bench: Bench) -> None:
    seen: list[float] = []
    part = FakePart(lambda session: seen.append(session.left_s))
    refused = FakePart(refusal=NotHereError("there is one GPU only"))
    file = bench.run({ValidationPart.MACHINE: part, ValidationPart.COLLECTIVES: refused})
    assert seen == [120.0 - RESERVE_S]
    assert reports(file)[ValidationPart.COLLECTIVES] == (Status.SKIPPED, "there is one GPU only")


def test_the_order_is_that_of_the_parts_and_not_of_the_caller(bench: Bench) -> None:
    file = bench.run({ValidationPart.SEARCH: FakePart(), ValidationPart.MACHINE: FakePart()})
    assert [report.part for report in file.validation.parts] == [
        ValidationPart.MACHINE,
        ValidationPart.SEARCH,
    ]


def test_what_has_no_room_ends_its_part_only(bench: Bench) -> None:
    done: list[str] = []
    file = bench.run(
        {
            ValidationPart.MACHINE: calls("result", expected=500.0),
            ValidationPart.SEARCH: FakePart(lambda session: done.append("search")),
        }
    )
    status, reason = reports(file)[ValidationPart.MACHINE]
    assert status is Status.PARTIAL
    assert reason.startswith("a pass takes about 500 s; ")
    assert done == ["search"]
    assert bench.timeouts == []


def test_most_of_what_is_expected_is_room_enough(bench: Bench) -> None:
    budget_s = 30.0 * BEGUN_WITH + RESERVE_S
    file = bench.run({ValidationPart.MACHINE: calls("result", expected=30.0)}, budget_s=budget_s)
    assert reports(file)[ValidationPart.MACHINE] == (Status.DONE, "")
    file = bench.run({ValidationPart.MACHINE: calls("result", expected=31.0)}, budget_s=budget_s)
    assert reports(file)[ValidationPart.MACHINE][0] is Status.PARTIAL
    assert bench.timeouts == [60.0]  # twice what was expected


def test_time_limits(bench: Bench) -> None:
    bench.run({ValidationPart.MACHINE: calls("result", "result", seconds=4.0)}, budget_s=30.0)
    bench.run({ValidationPart.MACHINE: calls("result", timeout_s=7.5)}, budget_s=30.0)
    assert bench.timeouts == [30.0 - RESERVE_S, 26.0 - RESERVE_S, 7.5]


def test_a_spent_budget_begins_no_part(bench: Bench) -> None:
    file = bench.run(
        {ValidationPart.MACHINE: calls("result", seconds=31.0), ValidationPart.SEARCH: FakePart()},
        budget_s=30.0,
    )
    assert reports(file)[ValidationPart.SEARCH] == (Status.SKIPPED, "the budget of 30 s is spent")
    assert file.validation.spent_seconds == 31.0


def failed(why: CallFailure) -> Failed:
    return Failed(why=why, message="its message")


@pytest.mark.parametrize("why", [CallFailure.ERROR, CallFailure.KILLED, CallFailure.TIMEOUT])
def test_a_call_without_a_result_leaves_the_part_incomplete(why: CallFailure, bench: Bench) -> None:
    def act(session: Session) -> None:
        session.call(failed(why), 1.0, title="a pass", expected_s=1.0)
        session.call(failed(why), 1.0, title="another", expected_s=1.0)
        session.add(figure())

    file = bench.run({ValidationPart.MACHINE: FakePart(act), ValidationPart.SEARCH: calls(failed(why))})
    assert reports(file) == {
        ValidationPart.MACHINE: (Status.PARTIAL, "a pass: its message (1 more)"),
        ValidationPart.SEARCH: (Status.FAILED, "a pass: its message"),
    }
    assert bench.heard.lines.count(f"returned {why.value}") == 3


def test_out_of_memory_is_a_result(bench: Bench) -> None:
    file = bench.run({ValidationPart.SEARCH: calls(failed(CallFailure.OUT_OF_MEMORY))})
    assert reports(file)[ValidationPart.SEARCH] == (Status.DONE, "")


def test_a_bug_of_a_part_does_not_end_the_run(bench: Bench) -> None:
    def act(session: Session) -> None:
        session.add(figure())
        raise ZeroDivisionError("first line\nsecond")

    file = bench.run({ValidationPart.MACHINE: FakePart(act), ValidationPart.SEARCH: FakePart()})
    assert reports(file) == {
        ValidationPart.MACHINE: (Status.FAILED, "ZeroDivisionError: first line"),
        ValidationPart.SEARCH: (Status.DONE, ""),
    }
    assert len(file.validation.parts[0].measurements) == 1


def test_control_c_keeps_what_was_recorded(bench: Bench) -> None:
    def act(session: Session) -> None:
        session.add(figure())
        session.add_case(CASE)
        session.note("a note")
        session.call("interrupt", 1.0, title="a pass", expected_s=1.0)

    file = bench.run(
        {
            ValidationPart.MACHINE: FakePart(act),
            ValidationPart.ROLLOUT: FakePart(),
            ValidationPart.SEARCH: FakePart(),
        }
    )
    assert file.validation.interrupted
    assert reports(file) == {
        ValidationPart.MACHINE: (Status.PARTIAL, "interrupted"),
        ValidationPart.ROLLOUT: (Status.SKIPPED, "interrupted"),
        ValidationPart.SEARCH: (Status.SKIPPED, "interrupted"),
    }
    assert [item.name for item in file.validation.parts[0].measurements] == ["update_actor.peak"]
    assert (len(file.cases), file.notes) == (1, ("a note",))
    assert bench.heard.lines[-1] == "end"


def test_control_c_between_parts_keeps_what_was_recorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(report: PartReport) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.heard, "part_done", interrupt)
    file = bench.run({ValidationPart.MACHINE: FakePart(), ValidationPart.SEARCH: FakePart()})
    assert file.validation.interrupted
    assert reports(file)[ValidationPart.MACHINE] == (Status.DONE, "")
    assert reports(file)[ValidationPart.SEARCH] == (Status.SKIPPED, "interrupted")


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((Outcome.NOT_MEASURABLE, Outcome.CONFIRMED), Outcome.CONFIRMED),
        ((Outcome.CONFIRMED, Outcome.NOT_MEASURABLE), Outcome.CONFIRMED),
        ((Outcome.CONFIRMED, Outcome.REFUTED), Outcome.REFUTED),
        ((Outcome.REFUTED, Outcome.CONFIRMED), Outcome.REFUTED),
        ((Outcome.REFUTED, Outcome.NOT_MEASURABLE), Outcome.REFUTED),
    ],
)
def test_parts_judge_a_recommendation_together(
    bench: Bench, outcomes: tuple[Outcome, ...], expected: Outcome
) -> None:
    def act(session: Session) -> None:
        for number, outcome in enumerate(outcomes):
            shown = (figure(str(number)),)
            session.judge(verdict(outcome, reason=f"as part {number} saw it", measurements=shown))

    file = bench.run({ValidationPart.TRAINING_STEP: FakePart(act)})
    (found,) = (item for item in file.validation.recommendations if item.code == "KRN999")
    assert found.outcome is expected
    heard = [
        number
        for number, outcome in enumerate(outcomes)
        if number == 0 or outcome is not Outcome.NOT_MEASURABLE
    ]
    assert found.reason == "; ".join(f"as part {number} saw it" for number in heard)
    assert [shown.name for shown in found.measurements] == [str(number) for number in heard]
    assert file.validation.refuted is (expected is Outcome.REFUTED)


def test_every_recommendation_has_a_verdict_in_the_order_of_the_advice(bench: Bench) -> None:
    advised = the_subject().advice.recommendations
    assert len(advised) > 3
    one = advised[1]
    own = verdict(Outcome.CONFIRMED, code=one.finding.rule.code, overrides=one.overrides)
    file = bench.run({ValidationPart.TRAINING_STEP: FakePart(lambda session: session.judge(own))})
    found = file.validation.recommendations
    assert [item.code for item in found] == [item.finding.rule.code for item in advised]
    assert found[1] == own
    others = [item for item in found if item is not found[1]]
    assert {item.outcome for item in others} == {Outcome.NOT_MEASURABLE}
    assert all(item.reason and item.claim for item in others)
    assert not file.validation.refuted


def reasons(file: ValidationFile) -> dict[str, str]:
    return {item.name: item.reason for item in file.validation.recommendations}


def test_reasons_say_what_was_not_run(bench: Bench) -> None:
    prices = {
        item.finding.rule.name: item.price
        for item in the_subject().advice.recommendations
        if item.price is not None and item.price.before_bytes != item.price.after_bytes
    }
    of_update = next(name for name, price in prices.items() if price.phase.value == "update_actor")
    of_rollout = next(name for name, price in prices.items() if price.phase.value == "rollout")
    found = reasons(bench.run({ValidationPart.TRAINING_STEP: calls("result", expected=999.0)}))
    said = "nothing of its phase was measured with it: training-step is partial, see there"
    assert found[of_update] == said
    assert found[of_rollout] == "nothing of its phase was run: rollout was not asked for"
    found = reasons(bench.run({ValidationPart.TRAINING_STEP: FakePart()}))
    assert found[of_update] == "training-step runs nothing that this setting changes"


def test_what_claims_nothing_is_said_to(bench: Bench) -> None:
    idle = {
        item.finding.rule.name
        for item in the_subject().advice.recommendations
        if item.price is None
        or (
            item.price.before_bytes == item.price.after_bytes
            and item.price.worst_before_bytes == item.price.worst_after_bytes
            and item.price.seconds_before == item.price.seconds_after
        )
    }
    found = bench.run({ValidationPart.TRAINING_STEP: FakePart()}).validation.recommendations
    assert idle
    said = {item.name for item in found if item.reason == "claims no bytes and no seconds"}
    assert idle <= said
    assert {item.claim for item in found if item.name in said} == {"no change of memory or time"}


def test_the_report_is_a_file_of_measured_passes(bench: Bench, tmp_path: Path) -> None:
    def act(session: Session) -> None:
        session.add_case(CASE)
        session.add(figure())

    path = tmp_path / "report.json"
    path.write_text(bench.run({ValidationPart.MACHINE: FakePart(act)}).model_dump_json(by_alias=True))
    read = read_measured(path)
    assert read.cases == (CASE,)
    assert read.software == MACHINE.versions
    path.write_text(bench.run({ValidationPart.MACHINE: FakePart()}).model_dump_json(by_alias=True))
    assert read_measured(path).cases == ()


def test_progress_hears_it_all(bench: Bench) -> None:
    bench.run({ValidationPart.MACHINE: calls("result", seconds=2.0), ValidationPart.SEARCH: FakePart()})
    assert bench.heard.lines == [
        "begin 120",
        "part machine",
        "call a pass 1 120",
        "returned a result",
        "done machine done",
        "part search",
        "done search done",
        "end",
    ]


def test_a_part_may_end_itself_for_lack_of_time(bench: Bench) -> None:
    def act(session: Session) -> None:
        raise OutOfBudgetError("three of seven sizes were run")

    file = bench.run({ValidationPart.OUTPUT_HEAD: FakePart(act, planned=(Planned(title="a", seconds=1.0),))})
    assert reports(file)[ValidationPart.OUTPUT_HEAD] == (Status.PARTIAL, "three of seven sizes were run")
