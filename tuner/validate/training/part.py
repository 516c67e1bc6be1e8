"""The training-step part: passes over the sharded model, as configured and with every proposal."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tuner.language import _, ngettext
from tuner.models.shape import cut_config
from tuner.units import GIB
from tuner.validate.children.call import Failed
from tuner.validate.children.servers import ServedFunction, Server
from tuner.validate.report.schema import Outcome
from tuner.validate.report.verdicts import verdict
from tuner.validate.session import NotHereError, Options, OutOfBudgetError, Planned, Session, Subject
from tuner.validate.training import depths
from tuner.validate.training.configured_passes import reasons_not_here
from tuner.validate.training.figures import out_of_memory, pass_measurements
from tuner.validate.training.groups import (
    REPEAT_S,
    REPETITIONS,
    Key,
    PassGroup,
    ProposedPass,
    TrainingPlan,
    Try,
)
from tuner.validate.training.plan import training_plan
from tuner.validate.training.settings import ModelSettings, PassFailed, PassFigures
from tuner.validate.training.verdicts import MeasuredPass, judge
from tuner.workload import Phase

_ENDS_S = 2.0  # of a process, around what it runs
_GRACE_S = 30.0
WORKER = ServedFunction.in_package(__package__, "worker.measure", "measure_passes", Server.MODELS)
WORKERS: tuple[ServedFunction, ...] = (WORKER,)


def plan(subject: Subject, options: Options) -> tuple[Planned, ...]:
    """The engines that would be built.

    Raises:
        NotHereError: no pass of this job can be run by the engine that is here.
    """
    capacity = subject.workload.cluster.gpu.capacity_bytes
    memory = min(capacity, options.memory_limit_bytes or capacity)
    planned = training_plan(subject, options, memory_bytes=memory)
    if not planned.groups:
        reasons = {*reasons_not_here(subject.workload).values()}
        reasons |= {attempt.reason for attempt in planned.configured if attempt.reason}
        raise NotHereError("; ".join(sorted(reasons)) or _("no training pass can be run here"))
    return tuple(Planned(title=_title(group), seconds=group.seconds) for group in planned.groups)


def run(session: Session) -> None:
    """Run the passes, engine by engine; record and judge as soon as there are figures for it."""
    options = session.options
    planned = training_plan(session.subject, options, memory_bytes=options.capacity_bytes(session.machine))
    for note in planned.notes:
        session.note(note)
    for phase, reason in reasons_not_here(session.subject.workload).items():
        session.note(_("{phase} is not run: {reason}.").format(phase=phase.value, reason=reason))
    _judge_what_cannot_run(session, planned)
    record = _Record(session=session, plan=planned)
    for index, group in enumerate(planned.groups):
        record.take(group, _results(session, group, _must(planned), planned.groups[index + 1 :]))
    for group in planned.groups:  # what had to make room for others, as far as there is still time
        record.take(group, _results(session, record.left_of(group)))
    left_out = sum(len(record.left_of(group).tries) for group in planned.groups)
    if options.device == "cpu":
        session.note(
            _("Training passes were run on a CPU, which has no peaks: they came to an end, no more.")
        )
    if left_out:
        raise OutOfBudgetError(_("no time for {left_out} of its passes").format(left_out=left_out))


def _judge_what_cannot_run(session: Session, planned: TrainingPlan) -> None:
    for proposed in planned.proposed:
        if proposed.reason:
            session.judge(verdict(proposed.recommendation, Outcome.NOT_MEASURABLE, proposed.reason))


def _must(planned: TrainingPlan) -> frozenset[Key]:
    """The passes as configured that are run whatever else there is time for."""
    return frozenset(
        attempt.key for attempt in planned.configured if attempt.planned.phase is not Phase.REF_LOG_PROB
    )


def _results(
    session: Session, group: PassGroup, must: Container[Key] = (), later: Sequence[PassGroup] = ()
) -> Iterator[tuple[Key, PassFigures | PassFailed]]:
    """What passes of a group came to, those that there is time for; after a failure in a fresh process.

    Args:
        session: runs them.
        group: the passes.
        must: they leave no time for others' sake.
        later: groups that time is left for.
    """
    wanted_later = sum(later_group.seconds for later_group in later)
    while group.tries:
        room = max(session.left_s - wanted_later, min(session.left_s, group.seconds_of(must)))
        now = group.within(room)
        results = _called(session, now) if now.tries else ()
        if isinstance(results, Failed):
            session.note(f"{_title(now)}: {results.message}.")
            yield from ((attempt.key, PassFailed(message=results.message)) for attempt in now.tries)
            return
        if not results:
            return
        done = [attempt.key for attempt in now.tries[: len(results)]]
        yield from zip(done, results, strict=True)
        group = group.after(done)


def _called(session: Session, group: PassGroup) -> Sequence[PassFigures | PassFailed] | Failed:
    """The results of a group's first passes, as far as there was time."""
    config, layers = session.subject.model_config, group.layers
    whole = layers == group.tries[0].planned.model.layers
    model = ModelSettings(config=config if whole else cut_config(config, layers), critic=group.critic)
    results: Sequence[PassFigures | PassFailed] | Failed = session.call(
        WORKER,
        model,
        tuple(attempt.planned.settings for attempt in group.tries),
        REPETITIONS,
        max(1.0, session.left_s - _ENDS_S),
        REPEAT_S,
        title=_title(group),
        expected_s=group.seconds,
        world=session.options.processes,
        # The worker ends by itself in time; what it has would be lost with it.
        timeout_s=session.left_s + group.seconds + _GRACE_S,
    )
    return results


def _title(group: PassGroup) -> str:
    phases = dict.fromkeys(attempt.planned.phase.value for attempt in group.tries)
    count = len(group.tries)
    passes = ngettext("{count} pass", "{count} passes", count).format(count=count)
    return _("training step: {phases} with {layers} layers, {passes}").format(
        phases=_(", ").join(phases), layers=group.layers, passes=passes
    )


@dataclass(kw_only=True)
class _Record:
    """Results so far, and what has been recorded of them."""

    session: Session
    plan: TrainingPlan
    results: dict[tuple[Key, int], PassFigures | PassFailed] = field(default_factory=dict)
    _done: set[int] = field(default_factory=set)

    def take(self, group: PassGroup, results: Iterable[tuple[Key, PassFigures | PassFailed]]) -> None:
        """Keep the results of a group, and say what they decide."""
        self.results |= {(key, group.layers): result for key, result in results}
        self.add()

    def left_of(self, group: PassGroup) -> PassGroup:
        """The passes of a group that have no results yet."""
        return group.after({key for key, layers in self.results if layers == group.layers})

    def add(self) -> None:
        """Record every pass and judge every recommendation that has its results now."""
        waiting: tuple[Try | ProposedPass, ...] = (*self.plan.configured, *self.plan.proposed)
        for awaited in waiting:
            if id(awaited) not in self._done and self._add(awaited):
                self._done.add(id(awaited))

    def _add(self, awaited: Try | ProposedPass) -> bool:
        tries = (awaited,) if isinstance(awaited, Try) else (awaited.before, awaited.after)
        if awaited.reason or any(one is None or not self._is_run(one) for one in tries):
            return False
        if isinstance(awaited, Try):
            self._add_configured(awaited)
        elif awaited.before is not None and awaited.after is not None:
            self._judge(awaited, awaited.before, awaited.after)
        return True

    def _is_run(self, attempt: Try) -> bool:
        return all((attempt.key, layers) in self.results for layers in attempt.layers)

    def _add_configured(self, attempt: Try) -> None:
        measured = self._measured_pass(attempt)
        phase = attempt.planned.phase.value
        if isinstance(measured, PassFailed):
            self.session.note(_("{phase} failed: {measured}.").format(phase=phase, measured=measured.message))
            if measured.out_of_memory:
                self.session.add(out_of_memory(attempt, self.session.machine.free_bytes))
        elif measured is not None:
            for measurement in pass_measurements(measured):
                self.session.add(measurement)
            self._add_case(measured)

    def _add_case(self, measured: MeasuredPass) -> None:
        if measured.extrapolated is None and measured.planned.can_be_recorded:
            self.session.add_case(measured.compared.case)
        else:
            self.session.note(
                _("{phase} is not among the recorded passes: a file of them cannot say what it was.").format(
                    phase=measured.planned.phase.value
                )
            )

    def _judge(self, proposed: ProposedPass, first: Try, second: Try) -> None:
        before, after = self._measured_pass(first), self._measured_pass(second)
        recommendation = proposed.recommendation
        if before is None or after is None:
            return
        if isinstance(after, PassFailed) and after.out_of_memory:
            peak = second.planned.predicted.peak_bytes
            reason = _("it ran out of memory, with a peak of {peak:.1f} GiB predicted").format(
                peak=peak / GIB
            )
            self.session.judge(verdict(recommendation, Outcome.REFUTED, reason))
        elif isinstance(before, PassFailed):
            reason = _("the pass as configured failed: {before}").format(before=before.message)
            self.session.judge(verdict(recommendation, Outcome.NOT_MEASURABLE, reason))
        elif isinstance(after, PassFailed):
            reason = _("the pass with it failed: {after}").format(after=after.message)
            self.session.judge(verdict(recommendation, Outcome.NOT_MEASURABLE, reason))
        else:
            job = self.session.subject.workload
            self.session.judge(judge(recommendation, before, after, job=job))

    def _measured_pass(self, attempt: Try) -> MeasuredPass | PassFailed | None:
        """A pass beside its prediction; None where no bytes were counted."""
        by_depth: list[PassFigures] = []
        for layers in attempt.layers:
            result = self.results[attempt.key, layers]
            if isinstance(result, PassFailed):
                return result
            by_depth.append(result)
        if by_depth[0].allocated_before_bytes is None:
            return None
        figures = (
            by_depth[0]
            if attempt.at is None
            else depths.figures_at_full(attempt.at, by_depth[0], by_depth[1])
        )
        return MeasuredPass(
            planned=attempt.planned,
            figures=figures,
            compared=attempt.planned.compared(figures),
            extrapolated=None if attempt.at is None else str(attempt.at),
        )
