"""Two configurations side by side, put together from what the model and the trainer say of each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner import timing
from tuner.advise import Verdict
from tuner.advise.comparison import Difference, JudgedJob, differences
from tuner.field_marks import Bytes
from tuner.findings import Finding, Severity
from tuner.inputs.user_input import UserInput
from tuner.memory import Item, PhaseEstimate
from tuner.override_text import override_key
from tuner.timing import Interval, StepTime, phase_interval
from tuner.trainers.key_facts import KeyChange, KeyFate, KeyKind
from tuner.trainers.protocol import LeftOut, Loaded
from tuner.workload import Phase

_SEVERE = (Severity.ERROR, Severity.WARNING)
_KINDS = (KeyKind.MODELLED, KeyKind.NOT_MODELLED, None, KeyKind.NO_EFFECT)


class Side(Struct, frozen=True, kw_only=True):
    """One side of a comparison: a configuration, and what the model says of it."""

    given: UserInput
    words: tuple[str, ...]  # that the user gave behind it
    loaded: Loaded
    release_reason: str
    rollout_engine: str | None
    model: str
    gpus: str
    gpu_assumed: bool
    node_said: bool  # somebody says how many GPUs a node has, beside the configuration
    job: JudgedJob
    left_out: tuple[LeftOut, ...]


class PartChange(Struct, frozen=True, kw_only=True):
    """One part of a phase's peak."""

    item: Item
    before_bytes: Bytes
    after_bytes: Bytes
    change_bytes: Bytes


_PeakBytes = Annotated[int | None, Meta(description="bytes at the peak; null without the phase")]
_SecondsInterval = Annotated[tuple[float, float], Meta(description="the least and the most seconds")]


class PhaseChange(Struct, frozen=True, kw_only=True):
    """One phase before and after; the parts add up to the peaks."""

    phase: Phase
    before: PhaseEstimate | None  # None where the step does not have it
    after: PhaseEstimate | None
    before_time: Interval | None
    after_time: Interval | None
    change: Annotated[
        timing.StepChange | None, Meta(description="of the seconds; null where one of both is missing")
    ]

    @property
    def before_seconds(self) -> float | None:
        """Modelled seconds before."""
        return None if self.before_time is None else self.before_time.seconds

    @property
    def after_seconds(self) -> float | None:
        """The seconds of the phase after the change."""
        return None if self.after_time is None else self.after_time.seconds

    @property
    def change_seconds(self) -> float:
        """The seconds by which it is longer; a phase that is missing takes none."""
        return (self.after_seconds or 0.0) - (self.before_seconds or 0.0)

    @property
    def before_interval_s(self) -> _SecondsInterval | None:
        """The interval of the seconds before."""
        return _ends(self.before_time)

    @property
    def after_interval_s(self) -> _SecondsInterval | None:
        """The interval of the seconds after the change."""
        return _ends(self.after_time)

    @property
    def before_bytes(self) -> _PeakBytes:
        """The peak before."""
        return None if self.before is None else self.before.peak_bytes

    @property
    def after_bytes(self) -> _PeakBytes:
        """The peak after the change."""
        return None if self.after is None else self.after.peak_bytes

    @property
    def change_bytes(self) -> Bytes:
        """The bytes by which the peak is higher; a phase that is missing takes none."""
        return (self.after_bytes or 0) - (self.before_bytes or 0)

    @property
    def parts(self) -> tuple[PartChange, ...]:
        """What both peaks add up from."""
        pairs = ((item, _part(self.before, item), _part(self.after, item)) for item in Item)
        return tuple(
            PartChange(item=item, before_bytes=before, after_bytes=after, change_bytes=after - before)
            for item, before, after in pairs
            if before or after
        )


def _ends(time: Interval | None) -> tuple[float, float] | None:
    return None if time is None else (time.low_s, time.high_s)


def _part(estimate: PhaseEstimate | None, item: Item) -> int:
    return 0 if estimate is None else estimate.bytes_of(item)


class KeyEntry(Struct, frozen=True, kw_only=True):
    """A key that differs, with what that does to the second job."""

    change: KeyChange
    differences: tuple[Difference, ...] = ()
    together: tuple[KeyChange, ...] = ()  # other keys that differ and decide the same

    @property
    def tells(self) -> bool:
        """Whether it changes memory or seconds."""
        return any(not difference.effect.is_none for difference in self.differences if difference.effect)


class ConfigurationDiff(Struct, frozen=True, kw_only=True):
    """Everything that ``tuner diff`` found out."""

    before: Side
    after: Side
    keys: tuple[KeyEntry, ...]  # those that touch one of both jobs, the most telling first
    passed_over: int  # further keys that differ and touch neither job
    behaviours: tuple[Difference, ...]  # what differs without a key that shows it
    engines_named: bool  # the user said which versions of the rollout engine run
    spoken: tuple[Finding, ...]  # errors and warnings of the second configuration alone
    silent: tuple[Finding, ...]  # those of the first alone

    @property
    def phases(self) -> tuple[PhaseChange, ...]:
        """Every phase that one of both steps has."""
        return tuple(self._phases())

    def _phases(self) -> Iterator[PhaseChange]:
        first, second = self.before.job.case, self.after.job.case
        for phase in Phase:
            before, after = first.estimate.phase(phase), second.estimate.phase(phase)
            if before is not None or after is not None:
                one, other = first.time.phase(phase), second.time.phase(phase)
                yield PhaseChange(
                    phase=phase,
                    before=before,
                    after=after,
                    before_time=None if one is None else phase_interval(one, first.workload.cluster),
                    after_time=None if other is None else phase_interval(other, second.workload.cluster),
                    change=None
                    if one is None or other is None
                    else self._change(StepTime(phases=(one,)), StepTime(phases=(other,))),
                )

    @property
    def change(self) -> timing.StepChange:
        """How the seconds of the whole step change."""
        first, second = self.before.job.case, self.after.job.case
        return self._change(first.time, second.time)

    def _change(self, before: StepTime, after: StepTime) -> timing.StepChange:
        return timing.change(
            before,
            after,
            self.before.job.case.workload.cluster,
            then=self.after.job.case.workload.cluster,
        )

    @property
    def is_worse(self) -> bool:
        """Whether the second job no longer starts or fits where the first one does."""
        return _badness(self.after.job) > _badness(self.before.job)


def _badness(job: JudgedJob) -> tuple[bool, int]:
    """Whether it starts, and how far memory is from saying that it fits."""
    beyond_memory = job.memory.verdict is not Verdict.WILL_NOT_START
    return job.verdict is Verdict.WILL_NOT_START and beyond_memory, job.memory.rank


def compared(
    before: Side, after: Side, *, keys: Sequence[KeyChange], engines_named: bool = False
) -> ConfigurationDiff:
    """Lay two configurations side by side.

    Args:
        before: the first one.
        after: the second one.
        keys: those that differ.
        engines_named: whether the user said which versions of the rollout engine run.
    """
    touching = [KeyEntry(change=key) for key in keys if key.touches]
    by_key = {entry.change.after.key: entry for entry in touching}
    behaviours = []
    deciding = after.loaded.keys_of_fields(after.job.case.workload)
    repaired = {override_key(override) for job in (before.job, after.job) for override in _repairs(job)}
    for difference in differences(before.job, after.job):
        names = _deciding_keys(difference, deciding)
        changed = [name for name in dict.fromkeys(names) if name in by_key]
        name = changed[0] if changed else None
        if name is None and repaired.intersection(names):
            continue  # the refusal and what lifts it are told
        if name is None and difference.overrides:
            name = names[0]
            by_key[name] = KeyEntry(change=_read_otherwise(name, before, after))
        if name is None:
            behaviours.append(difference)
        else:
            entry = by_key[name]
            # With overrides the first key undoes the difference by itself.
            together = () if difference.overrides else tuple(by_key[key].change for key in changed[1:])
            by_key[name] = replace(
                entry,
                differences=(*entry.differences, difference),
                together=(*entry.together, *together),
            )
    return ConfigurationDiff(
        before=before,
        after=after,
        keys=tuple(sorted(by_key.values(), key=_rank)),
        passed_over=sum(not key.touches for key in keys),
        behaviours=tuple(sorted(behaviours, key=_size)),
        engines_named=engines_named,
        spoken=tuple(_alone(after.job, before.job)),
        silent=tuple(_alone(before.job, after.job)),
    )


def _deciding_keys(difference: Difference, deciding: Mapping[tuple[str, ...], tuple[str, ...]]) -> list[str]:
    """The keys that decide a difference, those first by which it can be undone."""
    undone = map(override_key, difference.overrides)
    return [*undone, *(name for field in difference.fields for name in deciding.get(field.path, ()))]


def _repairs(job: JudgedJob) -> Iterator[str]:
    """What was set to lift what the release refuses."""
    for refusal in job.refusals:
        yield from refusal.overrides


def _read_otherwise(name: str, before: Side, after: Side) -> KeyChange:
    """A key that is the same in both and of which the releases make different things."""
    first, second = (side.loaded.key_states([name])[name] for side in (before, after))
    return KeyChange(change=KeyFate.MEANING, before=first, after=second, touches=True)


def _rank(entry: KeyEntry) -> tuple[object, ...]:
    kind = entry.change.kind
    return (
        not entry.tells,
        min(map(_size, entry.differences), default=0),
        not entry.change.by_user,
        _KINDS.index(kind),
        entry.change.after.key,
    )


def _size(difference: Difference) -> float:
    """The most bytes that a difference changes, as a negative number, so that the largest come first."""
    effect = difference.effect
    if effect is None:
        return 0
    most = max((abs(phase.change_bytes) for phase in effect.phases), default=0)
    return -most - abs(effect.host_change_bytes) - abs(effect.with_seconds - effect.without_seconds)


def _alone(job: JudgedJob, other: JudgedJob) -> Iterator[Finding]:
    """What the checks say of one configuration alone."""
    known = {(finding.rule.code, finding.keys) for finding in other.findings}
    for finding in job.findings:
        if finding.severity in _SEVERE and (finding.rule.code, finding.keys) not in known:
            yield finding
