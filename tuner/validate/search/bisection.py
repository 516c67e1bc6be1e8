"""Sizes that can be tried, and how to find where one stops to fit with few tries, each of them dear."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt

from tuner.validate.session import Subject
from tuner.validate.training.passes import PlannedPass

LEAST_TOKENS = 128  # below it nothing is worth knowing


_FAR = 4  # times the prediction: where even that runs, the limit is not sought any further
_ROUNDED = 0.95  # of the tolerance; the rest is for sizes that are rounded to whole sequences
_FINER = 4  # how much narrower than the tolerance the limit is sought where a verdict hangs on it


def snapped(tokens: float, longest: int) -> int:
    """The most tokens, up to so many, that sequences of one length make up, as few of them as possible."""
    whole = max(1, int(tokens))
    count = ceil(whole / longest)
    return max(count * (whole // count), (count - 1) * longest)


def longest_share(one: PlannedPass, subject: Subject) -> int:
    """Tokens of the longest sequence on one GPU, of those that share it."""
    return ceil(subject.workload.batch.sequence_tokens / one.case.ulysses)


def resized(one: PlannedPass, tokens: int, longest: int) -> PlannedPass:
    """The pass with as few sequences as hold so many tokens, all of one length up to the longest."""
    size = snapped(tokens, longest)
    count = ceil(size / longest)
    return one.with_sequences(count, size // count)


def predicted_limit(one: PlannedPass, capacity: int, longest: int) -> int | None:
    """The most tokens whose predicted peak is within the capacity; None where the least are beyond it."""

    def fits(tokens: int) -> bool:
        return resized(one, tokens, longest).predicted.peak_bytes <= capacity

    if not fits(LEAST_TOKENS):
        return None
    low, high = LEAST_TOKENS, 2 * LEAST_TOKENS
    while fits(high):
        low, high = high, 2 * high
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return snapped(low, longest)


@dataclass(frozen=True, kw_only=True)
class Bracket:
    """What is known of the limit: at least ``fits``, below ``fails``."""

    fits: int = 0  # the largest size that did; 0: none so far
    fails: int | None = None  # the smallest that did not

    def with_try(self, size: int, *, fits: bool) -> "Bracket":
        """After one more try."""
        if fits:
            return Bracket(fits=max(self.fits, size), fails=self.fails)
        return Bracket(fits=self.fits, fails=size if self.fails is None else min(self.fails, size))

    def within(self, tolerance: float) -> bool:
        """Whether the largest size that fits is within this share of the limit."""
        return self.fails is not None and self.fits > 0 and self.fits >= self.fails * (1 - tolerance)


class Search:
    r"""Which size to try next.

    The first two are about :math:`P / \sqrt{1 + \epsilon}` and :math:`P \sqrt{1 + \epsilon}`: they settle the
    limit to within :math:`\epsilon` where the prediction :math:`P` is off by half of that or less. Beyond
    them steps grow, :math:`(1 + \epsilon)^{1, 2, 4, \dots}`, until the limit is between two sizes, and then
    the bracket is halved in the logarithm. It is halved further, down to a quarter of :math:`\epsilon`,
    while the claim that the prediction is within :math:`\epsilon` depends on it.
    """

    def __init__(
        self, predicted: int, *, tolerance: float, snap: Callable[[float], int], least: int = 1
    ) -> None:
        r"""Begin.

        Args:
            predicted: limit.
            tolerance: :math:`\epsilon`.
            snap: the largest size that can be tried and is not above a number.
            least: size; below it nothing is tried.
        """
        self.predicted, self.tolerance = predicted, tolerance
        self._snap, self._least = snap, least
        self.bracket = Bracket()
        self._exponent = 1

    def record(self, size: int, *, fits: bool) -> None:
        """What came of a try."""
        self.bracket = self.bracket.with_try(size, fits=fits)

    def next_size(self) -> int | None:
        """The next try; None where the limit is known, below the least size, or far above the prediction."""
        fits, fails = self.bracket.fits, self.bracket.fails
        if fits and fails is not None:
            return None if self._is_fine_enough() else self._inside(sqrt(fits * fails))
        edge = sqrt(1 + _ROUNDED * self.tolerance)
        if fails is not None:
            return self._below(fails)
        if not fits:
            return max(self._least, self._snap(self.predicted / edge))
        if fits > _FAR * self.predicted:
            return None
        upper = self._snap(self.predicted * edge)
        return upper if fits < upper else self._above(fits)

    def _is_fine_enough(self) -> bool:
        fine = self.bracket.within(self.tolerance / _FINER)
        return fine or (self.bracket.within(self.tolerance) and self.decided is not None)

    @property
    def decided(self) -> bool | None:
        """Whether the prediction is within the tolerance of the largest size that fits; None: still open."""
        fits, fails = self.bracket.fits, self.bracket.fails
        if self.predicted < fits * (1 - self.tolerance):
            return False
        if not fits or fails is None or self.predicted > fits * (1 + self.tolerance):
            return False if fails is not None and self.predicted > fails * (1 + self.tolerance) else None
        return True if self.bracket.within(self.tolerance) else None

    def _inside(self, wanted: float) -> int | None:
        size = self._snap(wanted)
        fits, fails = self.bracket.fits, self.bracket.fails
        assert fails is not None
        if size <= fits:
            size = self._next_above(fits)
        return size if fits < size < fails else None

    def _next_above(self, size: int) -> int:
        """The next size that can be tried."""
        step = 1
        while (above := self._snap(size + step)) <= size:
            step *= 2
        return above

    def _step(self) -> float:
        factor = float((1 + self.tolerance) ** self._exponent)
        self._exponent *= 2
        return factor

    def _above(self, fits: int) -> int:
        return max(self._snap(fits * self._step()), self._next_above(fits))

    def _below(self, fails: int) -> int | None:
        if fails <= self._least:
            return None
        size = self._snap(fails / self._step())
        return max(self._least, size if size < fails else fails - 1)
