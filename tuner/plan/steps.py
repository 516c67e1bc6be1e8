"""Goes step by step through a space that is too large to be looked at as a whole.

From each start an axis after the other takes its best value, until no single change makes the job better;
then changes are tried in pairs, where one is faster and the other one makes room for it. What that comes to
is asked of the trainer; what it refuses is left out, and the way is gone again.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from tuner.plan.judge import Candidate, Judge, least_seconds
from tuner.plan.legality import Legality
from tuner.plan.space import Choice, Space
from tuner.rules.case import CaseFigures
from tuner.workload import Phase, Workload

_ROUNDS = 4
_LAYOUTS = 4  # of an axis by each of two measures, whose settings are improved step by step
_MANY = 12  # options of an axis of which not all are looked at again and again
_ASKED = 40  # refusals of one way, after which it is given up

Merit = tuple[tuple[int, ...], float]
"""The memory that a setting lacks, then its seconds."""

_LAST: Merit = ((1 << 62,), 0.0)  # of what is refused
_NOTHING = (0, 0, 0, 0)  # is missing
_SLOWER = (1,)  # than what fits, or more than that takes: how much more was not asked


class _Look(Struct, frozen=True, kw_only=True):
    """What is known of a choice: seconds are the least that it takes where that was enough to know."""

    merit: Merit
    exact: bool
    peaks: tuple[int, ...] = ()  # of the phases in their order
    lacks: tuple[int, ...] = ()  # numbers of those that lack memory


class Steps:
    """One walk over one space.

    Args:
        space: to be searched.
        judge: of the card.
        legality: of the job's trainer.
        failed: called with the constraint that a setting fails first.
        taken: called with each setting that the trainer takes and that fits.
        looked: called before each setting that is looked at.
    """

    def __init__(
        self,
        space: Space,
        judge: Judge,
        legality: Legality,
        *,
        failed: Callable[[str], None],
        taken: Callable[[Candidate], None],
        looked: Callable[[], None],
    ) -> None:
        self._space = space
        self._judge = judge
        self._legality = legality
        self._failed = failed
        self._taken = taken
        self._looked = looked
        self._looks: dict[Choice, _Look] = {}
        self.least_missing: dict[Phase, int] = {}  # of each phase, in all settings that were looked at

    @property
    def nearest(self) -> Choice | None:
        """The choice that is the best of all, or that lacks least."""
        return min(self._looks, key=lambda choice: self._looks[choice].merit, default=None)

    def go(self, starts: Sequence[Choice]) -> None:
        """Go from the starts, then from the best of what they came to in the layouts that promise most."""
        reached = [self._reached(start) for start in dict.fromkeys(starts)]
        known = [choice for choice in reached if choice is not None]
        if not known:
            return
        first = self._paired(min(known, key=self._merit))
        for place, one in enumerate(self._space.axes):
            if one.layout:
                for start in self._promising(first, place):
                    self._reached(start, fixed=place)

    def _promising(self, choice: Choice, place: int) -> list[Choice]:
        """A choice in other layouts of one axis: those that lack least, and the fastest ones of all."""
        others = [one for one in self._options(choice, place) if one != choice and self._merit(one) < _LAST]
        by_merit = sorted(others, key=self._merit)[:_LAYOUTS]
        by_seconds = sorted(others, key=lambda one: self._merit(one)[1])[:_LAYOUTS]
        return list(dict.fromkeys((*by_merit, *by_seconds)))

    def _options(self, choice: Choice, place: int) -> list[Choice]:
        """A choice with every option of one axis."""
        numbers = range(len(self._space.axes[place].options))
        return [(*choice[:place], number, *choice[place + 1 :]) for number in numbers]

    def _reached(self, start: Choice, *, fixed: int | None = None) -> Choice | None:
        """What the way from a start comes to that the trainer takes; None where it takes nothing on it."""
        for _number in range(_ASKED):
            choice = self._descended(start, fixed)
            if self._merit(choice) >= _LAST:
                return None
            setting = self._legality.setting(choice)
            if setting is not None:
                return self._as_read(setting)
            self._failed("refused")
        return None

    def _as_read(self, setting: Candidate) -> Choice:
        """The choice with what the trainer reads from it, which may be another job than was meant."""
        workload, figures, choice = setting.workload, setting.figures, setting.choice
        shortage = self._judge.shortage(workload, figures)
        merit = (shortage, setting.seconds)
        self._looks[choice] = _Look(merit=merit, peaks=_peaks(figures), exact=True)
        if not any(shortage):
            self._taken(setting)
        return choice

    def _descended(self, choice: Choice, fixed: int | None) -> Choice:
        """The choice that no single change makes better, with one axis as it is if that is held.

        Of an axis with very many options all are looked at once, and then those that were the best.
        """
        short: dict[int, list[int]] = {}
        for _round in range(_ROUNDS):
            before = choice
            for place in range(len(self._space.axes)):
                options = self._options(choice, place)
                options = [options[number] for number in short.get(place, range(len(options)))]
                for other in options if place != fixed else ():
                    if self._is_better(other, choice):
                        choice = other
                if len(options) > _MANY:
                    ranked = sorted(options, key=lambda one: self._look(one, self._merit(choice)).merit)
                    short[place] = [one[place] for one in ranked[:_MANY]]
            if choice == before:
                break
        return choice

    def _paired(self, choice: Choice) -> Choice:
        """The choice that no pair of changes makes better, of which one makes room for the other."""
        for _round in range(_ROUNDS):
            better = choice
            for both in self._pairs(choice):
                if self._is_better(both, better):
                    better = both
            reached = None if better == choice else self._reached(better)
            if reached is None or not self._is_better(reached, choice):
                return choice
            choice = reached
        return choice

    def _pairs(self, choice: Choice) -> Iterator[Choice]:
        """Changes that are faster and do not fit, each with those that make room in a phase it lacks in."""
        (_, seconds), own = self._merit(choice), self._look(choice, None)
        single = [
            (other, self._look(other, None))
            for place in range(len(self._space.axes))
            for other in self._options(choice, place)
            if other != choice
        ]
        lacking = [(other, look) for other, look in single if look.lacks and look.merit[1] < seconds]
        fitting = sorted(
            ((other, look) for other, look in single if not any(look.merit[0])), key=lambda one: one[1].merit
        )
        for first, short in sorted(lacking, key=lambda one: one[1].merit[1])[:_MANY]:
            roomier = (
                other
                for other, look in fitting
                if any(
                    look.peaks[phase] < own.peaks[phase] for phase in short.lacks if phase < len(look.peaks)
                )
            )
            pairs = (_together(choice, first, second) for second in roomier)
            yield from islice((both for both in pairs if both is not None), _MANY)

    def _is_better(self, other: Choice, choice: Choice) -> bool:
        own = self._merit(choice)
        return self._look(other, own).merit < own

    def _merit(self, choice: Choice) -> Merit:
        return self._look(choice, None).merit

    def _look(self, choice: Choice, against: Merit | None) -> _Look:
        """What is known of a choice, its seconds at least as far as they decide against a merit."""
        if self._legality.refusal(choice) is not None:
            return _Look(merit=_LAST, exact=True)
        look = self._looks.get(choice)
        enough = look is not None and (look.exact or (against is not None and look.merit >= against))
        if look is None or not enough:
            if look is None:
                self._looked()
            look = self._looks[choice] = self._make(choice, against)
        return look

    def _make(self, choice: Choice, against: Merit | None) -> _Look:
        workload = self._space.workload(choice)
        seconds = least_seconds(workload)
        if against is not None and not any(against[0]) and seconds >= against[1]:
            return _Look(merit=(_SLOWER, seconds), exact=False)
        figures = CaseFigures(workload)
        if against is not None and not any(against[0]):
            seconds = self._judge.seconds(workload, figures, seconds)
            if seconds >= against[1]:
                return _Look(merit=(_SLOWER, seconds), exact=False)
            failing = self._judge.failing(workload, figures, self._space.in_passes(choice))
            if failing is not None:
                self._failed(failing)
                return _Look(merit=(_SLOWER, seconds), exact=False)
            return _Look(merit=(_NOTHING, figures.time.seconds), peaks=_peaks(figures), exact=True)
        shortage = self._judge.shortage(workload, figures)
        self._note_missing(workload, figures)
        if any(shortage):
            self._failed(self._judge.failing(workload, figures, self._space.in_passes(choice)) or "")
            lacks = tuple(
                number
                for number, phase in enumerate(figures.memory.all_phases)
                if self._judge.missing_bytes(workload, phase)
            )
            return _Look(merit=(shortage, seconds), peaks=_peaks(figures), lacks=lacks, exact=True)
        return _Look(merit=(_NOTHING, figures.time.seconds), peaks=_peaks(figures), exact=True)

    def _note_missing(self, workload: Workload, figures: CaseFigures) -> None:
        for phase in figures.memory.all_phases:
            missing = self._judge.missing_bytes(workload, phase)
            self.least_missing[phase.phase] = min(missing, self.least_missing.get(phase.phase, missing))


def _peaks(figures: CaseFigures) -> tuple[int, ...]:
    return tuple(phase.peak_bytes for phase in figures.memory.all_phases)


def _together(choice: Choice, first: Choice, second: Choice) -> Choice | None:
    """Two changes of a choice as one; None where they change the same axis."""
    changed = zip(choice, first, second, strict=True)
    if any(one != own and other != own for own, one, other in changed):
        return None
    return tuple(one if one != own else other for own, one, other in zip(choice, first, second, strict=True))
