"""The run: its parts in order, the budget that they share, and what they find."""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from tuner import __version__
from tuner.accuracy.measured_files import MeasuredCase
from tuner.advise import Recommendation
from tuner.language import _
from tuner.validate import plans
from tuner.validate.children import processes
from tuner.validate.children.call import CallFailure, Failed, Setup
from tuner.validate.children.servers import ServedFunction
from tuner.validate.parts import ValidationPart
from tuner.validate.plans import PartPlan, Progress
from tuner.validate.report.schema import (
    JudgedRecommendation,
    Machine,
    Measurement,
    PartReport,
    Status,
    Validation,
    ValidationFile,
)
from tuner.validate.report.verdicts import joined, unjudged
from tuner.validate.session import (
    Options,
    OutOfBudgetError,
    Subject,
)

# Of what is left of the budget when a part begins, among those still to come.
_WEIGHTS = {
    ValidationPart.MACHINE: 4,
    ValidationPart.OUTPUT_HEAD: 3,
    ValidationPart.TRAINING_STEP: 20,
    ValidationPart.ROLLOUT: 3,
    ValidationPart.COLLECTIVES: 5,
    ValidationPart.SEARCH: 4,
    ValidationPart.VERL_UPDATE: 1,  # the last: what the others leave, seldom enough unless it is asked for
}
_WEIGHTS_OF_SECONDS = {ValidationPart.TRAINING_STEP: 2, ValidationPart.ROLLOUT: 3}  # an engine starts slowly
BEGUN_WITH = 0.75  # of the expected time: estimates are rough
RESERVE_S = 3.0  # for what ends a little later than expected, and for the report
_CUT_SHORT = (CallFailure.TIMEOUT, CallFailure.KILLED, CallFailure.ERROR)


@dataclass(kw_only=True)
class Run:
    """One run and its record; it is the :class:`~tuner.validate.session.Session` of every part."""

    subject: Subject
    options: Options
    machine: Machine
    setup: Setup
    progress: Progress
    clock: Callable[[], float] = time.monotonic
    spent_before_s: float = 0.0  # of the budget, before the first part

    interrupted: bool = field(default=False, init=False)
    _began: float = field(init=False)
    _part_ends: float = field(default=0.0, init=False)
    _measurements: list[Measurement] = field(default_factory=list, init=False)
    _failures: list[tuple[str, Failed]] = field(default_factory=list, init=False)
    _records: int = field(default=0, init=False)  # of the current part, of any kind
    _reports: list[PartReport] = field(default_factory=list, init=False)
    _cases: list[MeasuredCase] = field(default_factory=list, init=False)
    _judged: dict[tuple[str, tuple[str, ...]], JudgedRecommendation] = field(default_factory=dict, init=False)
    _notes: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._began = self.clock() - self.spent_before_s

    @property
    def left_s(self) -> float:
        """Seconds of the budget that this part may still use."""
        return max(0.0, self._part_ends - self.clock())

    @property
    def _spent_s(self) -> float:
        return self.clock() - self._began

    def call(
        self,
        worker: ServedFunction,
        *arguments: Any,
        title: str,
        expected_s: float,
        world: int = 1,
        timeout_s: float | None = None,
    ) -> Any:
        """Have a worker called in fresh processes, see :class:`tuner.validate.session.Session`."""
        left = self.left_s
        if left < BEGUN_WITH * expected_s:
            raise OutOfBudgetError(
                _(
                    "{title} takes about {expected_s:.0f} s; {left:.0f} s of the budget are left for "
                    "this part"
                ).format(title=title, expected_s=expected_s, left=left)
            )
        self.progress.call(title, expected_s, self.options.budget_s - self._spent_s)
        # Estimates are rough: what has begun may take twice as long before it is given up.
        limit = max(left, 2 * expected_s) if timeout_s is None else timeout_s
        failed: Failed | None = None
        try:
            result = processes.run(worker, arguments, setup=self.setup, timeout_s=limit, world=world)
            if isinstance(result, Failed):
                failed = result
                self._failures.append((title, failed))
            return result
        finally:
            self.progress.returned(failed)

    def add(self, measurement: Measurement) -> None:
        """Record a figure."""
        self._measurements.append(measurement)
        self._records += 1

    def add_case(self, case: MeasuredCase) -> None:
        """Record a measured pass."""
        self._cases.append(case)
        self._records += 1

    def judge(self, judged: JudgedRecommendation) -> None:
        """Record a verdict, beside what other parts say of the same recommendation."""
        key = (judged.code, judged.overrides)
        earlier = self._judged.get(key)
        self._records += 1
        self._judged[key] = judged if earlier is None else joined(earlier, judged)

    def is_measured(self, recommendation: Recommendation) -> bool:
        """Whether a part has figures on a recommendation, see :class:`tuner.validate.session.Session`."""
        judged = self._judged.get((recommendation.finding.rule.code, recommendation.overrides))
        return judged is not None and bool(judged.measurements)

    def note(self, text: str) -> None:
        """Record a sentence for the reader."""
        if text not in self._notes:
            self._notes.append(text)

    def execute(self, planned: Sequence[PartPlan]) -> ValidationFile:
        """Run every part; Ctrl-C ends the run and not its report."""
        self.progress.begin(planned, self.options.budget_s)
        try:
            for index, part in enumerate(planned):
                self._reports.append(self._report(part, planned[index:]))
                self.progress.part_done(self._reports[-1])
        except KeyboardInterrupt:
            self.interrupted = True  # between two parts
            self._reports += [self._report(part, ()) for part in planned[len(self._reports) :]]
        finally:
            self.progress.end()
        return self._file()

    def _report(self, planned: PartPlan, coming: Sequence[PartPlan]) -> PartReport:
        if planned.reason:
            return PartReport(part=planned.part, status=Status.SKIPPED, reason=planned.reason, seconds=0)
        if self.interrupted:
            return PartReport(part=planned.part, status=Status.SKIPPED, reason=_("interrupted"), seconds=0)
        left = self.options.budget_s - self._spent_s - RESERVE_S
        if left <= 0:
            reason = _("the budget of {budget_s:.0f} s is spent").format(budget_s=self.options.budget_s)
            return PartReport(part=planned.part, status=Status.SKIPPED, reason=reason, seconds=0)
        by_part = _WEIGHTS | (_WEIGHTS_OF_SECONDS if self.options.seconds_alone else {})
        weights = [by_part[other.part] for other in coming if not other.reason]
        began = self.clock()
        self._part_ends = began + left * weights[0] / sum(weights)
        self._measurements, self._failures, self._records = [], [], 0
        self.progress.part(planned.part)
        status, reason = self._run(planned.part)
        return PartReport(
            part=planned.part,
            status=status,
            reason=reason,
            seconds=self.clock() - began,
            measurements=tuple(self._measurements),
        )

    def _run(self, part: ValidationPart) -> tuple[Status, str]:
        """Run one part; how far it came and why not further."""
        try:
            plans.PARTS[part].run(self)
        except OutOfBudgetError as error:
            return Status.PARTIAL, str(error)
        except KeyboardInterrupt:
            self.interrupted = True
            return Status.PARTIAL, _("interrupted")
        except Exception as error:
            self._log(traceback.format_exc())
            first = next(iter(str(error).splitlines()), "")
            return Status.FAILED, f"{type(error).__name__}: {first}"
        reasons = [
            f"{title}: {failed.message}" for title, failed in self._failures if failed.why in _CUT_SHORT
        ]
        if not reasons:
            return Status.DONE, ""
        more = _(" ({reasons} more)").format(reasons=len(reasons) - 1) if len(reasons) > 1 else ""
        return Status.PARTIAL if self._records else Status.FAILED, reasons[0] + more

    def _log(self, text: str) -> None:
        if self.setup.log is not None:
            with suppress(OSError), self.setup.log.open("a", encoding="utf-8") as log:
                log.write(text)

    def _file(self) -> ValidationFile:
        subject, workload = self.subject, self.subject.workload
        date = datetime.now(timezone.utc).date().isoformat()
        validation = Validation(
            tuner_version=__version__,
            date=date,
            source=subject.source,
            overrides=subject.overrides,
            trainer=str(workload.release),
            model=workload.model.name,
            budget_seconds=self.options.budget_s,
            spent_seconds=self._spent_s,
            memory_limit_bytes=self.options.memory_limit_bytes,
            interrupted=self.interrupted,
            machine=self.machine,
            parts=tuple(self._reports),
            recommendations=tuple(self._recommendations()),
        )
        return ValidationFile(
            what=_("validation of {source}, {model}").format(
                source=subject.source, model=workload.model.name
            ),
            hardware=f"{self.machine.devices} x {self.machine.device}",
            software=self.machine.versions,
            notes=tuple(self._notes),
            date=date,
            cases=tuple(self._cases),
            validation=validation,
        )

    def _recommendations(self) -> Iterator[JudgedRecommendation]:
        """The whole advice, in its order, then what was judged beside."""
        left = {
            (judged.code, judged.overrides): judged
            for judged in unjudged(self.subject.advice, self._judged, self._reports)
        }
        verdicts = self._judged | left
        for recommendation in self.subject.advice.recommendations:
            key = (recommendation.finding.rule.code, recommendation.overrides)
            if key in verdicts:
                yield verdicts.pop(key)
        yield from verdicts.values()
