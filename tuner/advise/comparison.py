"""Two jobs side by side: which fields of their workloads differ, and what each difference does to the second.

A difference is priced by the second job without it: with the first job's value in its place.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from tuner.advise.differences import changes, merged
from tuner.advise.reading import Reading
from tuner.advise.refusals import Refusal, started, verdict_of_start
from tuner.advise.verdicts import Judgement, Verdict, judge_memory
from tuner.field_marks import Bytes
from tuner.findings import Finding
from tuner.rules.case import Case
from tuner.timing import StepChange
from tuner.workload import Phase, Workload

Path = tuple[str, ...]

_WHOLE: tuple[Path, ...] = (
    ("model",),
    ("critic", "model"),
    ("reference", "model"),
    ("cluster",),
    ("services",),
    ("batch", "conversation"),
)  # one difference each
_NAMED_APART: tuple[Path, ...] = (("release",), ("rollout", "engine_version"))
# What a release can be set to, or how far a proposal may go: nothing of the job itself.
_OF_ADVICE = frozenset(
    {
        "apart_with",
        "attention_settable",
        "flash_brought",
        "fusable",
        "graphs_adjustable",
        "layers_fusable",
        "may_chunk",
        "older_core",
        "optimizer_fusable",
        "packable",
        "packing_tested",
        "packs_by_flash",
        "quantizes_cache",
        "rounding",
        "second",
        "sequences_adjustable",
        "sleep_known",
    }
)


class JudgedJob(Struct, frozen=True, kw_only=True):
    """A configuration as its release starts it, and what the model says of it."""

    reading: Reading  # with the least that lifts what the trainer refuses
    case: Case
    verdict: Verdict
    memory: Judgement  # of the job that nothing refuses
    refusals: tuple[Refusal, ...]
    findings: tuple[Finding, ...]  # of the trainer's checks, on the configuration as it was given


def judge(reading: Reading, *, headroom: float) -> JudgedJob:
    """What the model says of one configuration."""
    start = started(reading, headroom=headroom, allow=())
    case = Case.of(start.reading.workload, headroom=headroom)
    memory = judge_memory(case, start.reading.releases)
    return JudgedJob(
        reading=start.reading,
        case=case,
        verdict=verdict_of_start(start.refusals, memory.verdict),
        memory=memory,
        refusals=start.refusals,
        findings=tuple(reading.findings),
    )


class FieldChange(Struct, frozen=True, kw_only=True):
    """One field of a workload that differs."""

    path: Path
    before: Any
    after: Any


class PhaseEffect(Struct, frozen=True, kw_only=True):
    """A phase of the second job without a difference, and with it."""

    phase: Phase
    without_bytes: Bytes
    with_bytes: Bytes

    @property
    def change_bytes(self) -> int:
        """What the difference adds."""
        return self.with_bytes - self.without_bytes


class Effect(Struct, frozen=True, kw_only=True):
    """What one difference does to the second job."""

    phases: Annotated[tuple[PhaseEffect, ...], Meta(description="those whose peak changes")]
    without_host_bytes: Bytes  # of a node
    with_host_bytes: Bytes
    without_seconds: float
    with_seconds: float
    change: Annotated[StepChange, Meta(description="of the seconds, with its interval")]

    @property
    def host_change_bytes(self) -> int:
        """What the difference adds to the host memory of a node."""
        return self.with_host_bytes - self.without_host_bytes

    @property
    def is_none(self) -> bool:
        """Whether neither a peak nor host memory nor the step changes."""
        return not (self.phases or self.host_change_bytes) and self.without_seconds == self.with_seconds


class Difference(Struct, frozen=True, kw_only=True):
    """Fields that differ for one reason, and what that does to the second job."""

    fields: tuple[FieldChange, ...]
    overrides: tuple[str, ...]  # give the second job the first one's values; none where no key decides them
    effect: Effect | None  # None where there is no such job


def field_changes(before: Workload, after: Workload) -> tuple[FieldChange, ...]:
    """The fields that differ, all but what only proposals ask for; a model counts as one field."""
    paths = (_as_one(path) for path in changes(before, after))
    return tuple(
        FieldChange(path=path, before=_value(before, path), after=_value(after, path))
        for path in dict.fromkeys(paths)
        if not (path[:1] in _NAMED_APART or path in _NAMED_APART or _OF_ADVICE.intersection(path))
    )


def differences(before: JudgedJob, after: JudgedJob) -> tuple[Difference, ...]:
    """What differs between two jobs, by the keys of the second one's release that decide it.

    A field that follows from another difference is part of that one.
    """
    groups: dict[tuple[str, ...], list[FieldChange]] = {}
    for change in field_changes(before.case.workload, after.case.workload):
        overrides = _written(after, [change])[0]
        alike = ("", change.path[-1], repr(change.before), repr(change.after))  # of several models
        groups.setdefault(overrides or alike, []).append(change)
    undone = [_Undone.of(after, group) for group in groups.values()]
    return tuple(
        Difference(
            fields=tuple(change for part in (one, *_following(one, undone)) for change in part.changes),
            overrides=one.overrides,
            effect=_effect(after.case, one.workload),
        )
        for one in undone
        if _leader(one, undone) is None
    )


class _Undone(Struct, frozen=True, kw_only=True):
    """Some fields with the first job's values, and what the second release reads with them."""

    changes: tuple[FieldChange, ...]
    overrides: tuple[str, ...]
    workload: Workload

    @classmethod
    def of(cls, after: JudgedJob, group: Sequence[FieldChange]) -> "_Undone":
        overrides, workload = _written(after, group)
        return cls(changes=tuple(group), overrides=overrides, workload=workload)

    def undoes(self, other: "_Undone") -> bool:
        """Whether the other difference goes with this one."""
        return bool(self.overrides) and all(_is_before(self.workload, change) for change in other.changes)


def _leader(one: _Undone, undone: Sequence[_Undone]) -> _Undone | None:
    """The difference that another one follows from; None where it stands by itself."""
    return next(
        (other for other in undone if other is not one and other.undoes(one) and not one.undoes(other)), None
    )


def _following(leader: _Undone, undone: Sequence[_Undone]) -> Iterator[_Undone]:
    """The differences that end up with this one, be it by way of others."""
    for one in undone:
        above = _leader(one, undone)
        if above is not None and above is leader:
            yield one
            yield from _following(one, undone)


def _is_before(workload: Workload, change: FieldChange) -> bool:
    try:
        return bool(_value(workload, change.path) == change.before)
    except AttributeError:  # the job has no such part then
        return False


def _written(after: JudgedJob, group: Iterable[FieldChange]) -> tuple[tuple[str, ...], Workload]:
    """What makes the second release read the first job's values, and what it reads from it."""
    wanted = merged(after.case.workload, {change.path: change.before for change in group})
    try:
        written = after.reading.write(wanted)
    except ValueError:
        return (), wanted
    return written.overrides, written.workload


def _effect(case: Case, without: Workload) -> Effect | None:
    try:
        other = case.with_workload(without)
        return Effect(
            phases=tuple(_phase_effects(case, other)),
            without_host_bytes=other.estimate.host_bytes,
            with_host_bytes=case.estimate.host_bytes,
            without_seconds=other.time.seconds,
            with_seconds=case.time.seconds,
            change=other.change(case.workload),
        )
    except (ArithmeticError, ValueError):  # values of two jobs that make none together
        return None


def _phase_effects(case: Case, other: Case) -> Iterator[PhaseEffect]:
    for phase in Phase:
        with_it, without = case.estimate.phase(phase), other.estimate.phase(phase)
        effect = PhaseEffect(
            phase=phase,
            without_bytes=0 if without is None else without.peak_bytes,
            with_bytes=0 if with_it is None else with_it.peak_bytes,
        )
        if effect.change_bytes:
            yield effect


def _as_one(path: Path) -> Path:
    return next((whole for whole in _WHOLE if path[: len(whole)] == whole), path)


def _value(workload: Workload, path: Path) -> Any:
    node: Any = workload
    for name in path:
        node = getattr(node, name)
    return node
