"""Searches a space: all of it where it is small, else step by step from several settings."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from math import inf

from msgspec import Struct

from tuner.plan.judge import Candidate, Judge, least_seconds
from tuner.plan.legality import Legality, Refused
from tuner.plan.pareto import Pareto
from tuner.plan.ranking import MOST, Best
from tuner.plan.space import Choice, Space
from tuner.plan.steps import Steps
from tuner.rules.case import CaseFigures
from tuner.workload import Phase

LARGEST_WHOLE = 6_000  # settings that are looked at one and all
REFUSED = "refused"
_EVERY = 100  # settings between two reports


class SearchProgress(Struct, frozen=True, kw_only=True):
    """How far a search is."""

    looked_at: int
    size: int
    rejected: dict[str, int]
    best_s: float | None


Watch = Callable[[SearchProgress], None]


class SearchResult(Struct, frozen=True, kw_only=True):
    """What a search came to."""

    space: Space
    best: tuple[Candidate, ...]  # one of each layout, the fastest first
    pareto: tuple[Candidate, ...]
    whole: bool  # every setting was looked at
    looked_at: int
    rejected: dict[str, int]  # by the constraint failed first; what is slower than the best is not asked
    refused: tuple[Refused, ...]
    nearest: Choice | None  # the one that lacks least, where nothing fits
    everywhere: dict[Phase, int]  # the least bytes that a phase lacks, of the settings gone through by steps
    stopped: bool = False  # by whoever waited for it


class SettingSearch:
    """One search over one space.

    Args:
        space: to be searched.
        legality: what the trainer says of settings.
        headroom: share of the card that every phase leaves free.
        most: settings that are wanted.
        watch: told how far the search is.
    """

    def __init__(
        self,
        space: Space,
        legality: Legality,
        *,
        headroom: float,
        most: int = MOST,
        watch: Watch | None = None,
    ) -> None:
        self._space = space
        self._judge = Judge(headroom)
        self._legality = legality
        self._best = Best(most)
        self._pareto = Pareto()
        self._rejected: Counter[str] = Counter()
        self._looked_at = 0
        self._watch = watch

    def hold(self, setting: Candidate) -> None:
        """Take in a setting that is known to start and to fit, whatever it leaves free."""
        self._best.enter(self._space.layout(setting.choice), setting)
        self._pareto.enter(setting)

    def run(self, starts: Sequence[Choice] = (), *, largest_whole: int = LARGEST_WHOLE) -> SearchResult:
        """Look at every setting of a small space, else go from the starts to what is better.

        A search that is interrupted has what it knew by then.
        """
        whole, stopped = self._space.size <= largest_whole, False
        steps = Steps(
            self._space,
            self._judge,
            self._legality,
            failed=(lambda _constraint: None) if whole else self._reject,
            taken=self.hold,
            looked=(lambda: None) if whole else self._count,
        )
        try:
            if whole:
                self._go_through()
            if not (whole and self._best.settings):  # where nothing fits, what lacks least is wanted
                steps.go((self._space.unchanged, *starts))
        except KeyboardInterrupt:
            stopped = True
        return SearchResult(
            space=self._space,
            best=self._best.settings,
            pareto=self._pareto.members,
            whole=whole and not stopped,
            looked_at=self._looked_at,
            rejected=dict(self._rejected),
            refused=tuple(self._legality.refused),
            nearest=steps.nearest,
            everywhere=steps.least_missing,
            stopped=stopped,
        )

    def _go_through(self) -> None:
        for choice in product(*(range(len(one.options)) for one in self._space.axes)):
            self._count()
            failing = self._failing(choice)
            if failing is not None:
                self._reject(failing)

    def _failing(self, choice: Choice) -> str | None:
        """The constraint that a setting fails first; None where it is taken in, or of no interest."""
        if self._legality.refusal(choice) is not None:
            return REFUSED
        in_passes = self._space.in_passes(choice)
        if known := self._judge.known_to_fail(in_passes):
            return known
        workload = self._space.workload(choice)
        setting = Candidate(choice=choice, workload=workload, figures=CaseFigures(workload))
        if self._is_beaten(setting):
            return None
        failing = self._judge.failing(workload, setting.figures, in_passes)
        if failing is not None:
            return failing
        if self._passes_over(setting, setting.seconds):
            return None
        return self._as_read(setting)

    def _as_read(self, setting: Candidate) -> str | None:
        """Take in a setting as the trainer reads it."""
        read = self._legality.setting(setting.choice)
        if read is None:
            return REFUSED
        failing = None
        if read.workload != setting.workload:
            failing = self._judge.failing(read.workload, read.figures)
        if failing is None:
            self.hold(read)
        return failing

    def _is_beaten(self, setting: Candidate) -> bool:
        """Whether a setting is of no interest even if it fits, as its seconds and one phase alone show.

        What generates takes the same with many settings of the trainer, so that both are mostly known.
        """
        layout, workload = self._space.layout(setting.choice), setting.workload
        if not self._best.passes_over(layout, inf):
            return False
        seconds = least_seconds(workload)
        if not self._best.passes_over(layout, seconds):
            seconds = self._judge.seconds(workload, setting.figures, seconds)
        if not self._best.passes_over(layout, seconds):
            return False
        peaks = (phase.peak_bytes for phase in setting.figures.memory.phases())
        return self._pareto.beats(seconds, next(peaks, 0))

    def _passes_over(self, setting: Candidate, seconds: float) -> bool:
        """Whether a setting is of no interest if it takes so many seconds at least."""
        layout = self._space.layout(setting.choice)
        return self._best.passes_over(layout, seconds) and self._pareto.beats(seconds, setting.peak_bytes)

    def _reject(self, constraint: str) -> None:
        self._rejected[constraint] += 1

    def _count(self) -> None:
        self._looked_at += 1
        if self._watch is not None and self._looked_at % _EVERY == 0:
            best = self._best.settings
            self._watch(
                SearchProgress(
                    looked_at=self._looked_at,
                    size=self._space.size,
                    rejected=dict(self._rejected),
                    best_s=best[0].seconds if best else None,
                )
            )
