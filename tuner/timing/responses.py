"""How responses end one after the other, and how long the last of them keep the rollout from its end."""

from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from tuner.timing import assumptions as assume
from tuner.workload import P95, Batch

_STEEPEST = 64.0  # exponent of a bulk whose mean its 95th percentile hardly allows


class Band(Struct, frozen=True, kw_only=True):
    """Steps of the engine in which a share of a batch's sequences runs."""

    share: float
    steps: float


class _Survivors(Struct, frozen=True, kw_only=True):
    """The share of responses that are longer than some length.

    All are, up to ``start``. From there to ``p95`` it falls to 5 %, by ``(1 - x)^k`` after the part x of the
    way: evenly where the exponent k is 1. From p95 to ``longest`` it falls evenly to none.
    """

    start: float
    p95: float
    longest: float
    exponent: float

    def length(self, share: float) -> float:
        """The length that this share of responses exceeds."""
        beyond = 1 - P95
        if share < beyond:
            return self.longest - (self.longest - self.p95) * share / beyond
        left: float = ((share - beyond) / P95) ** (1 / self.exponent)
        return self.p95 - (self.p95 - self.start) * left

    def tokens(self, share: float) -> float:
        """Tokens of the steps from this share on, over the responses of the batch."""
        beyond = 1 - P95
        if share < beyond:
            return (self.longest - self.length(share)) * share / 2
        tail = (self.longest - self.p95) * beyond / 2
        bulk = self.p95 - self.length(share)
        return tail + bulk * (beyond + (share - beyond) / (self.exponent + 1))


def _survivors(batch: Batch) -> _Survivors:
    mean, p95, longest = batch.mean_response_tokens, batch.response_p95_tokens, batch.max_response_tokens
    beyond = 1 - P95
    bulk = mean - (longest - p95) * beyond / 2  # tokens up to p95, over all responses
    # Evenly from start to p95: start + (p95 - start) (1 + beyond) / 2 = bulk.
    start = (bulk - p95 * (1 + beyond) / 2) / (P95 / 2)
    if start >= 0:
        return _Survivors(start=min(start, p95), p95=p95, longest=longest, exponent=1.0)
    # Most are short: p95 (beyond + P95 / (exponent + 1)) = bulk.
    above = bulk - p95 * beyond
    exponent = _STEEPEST if above <= 0 else min(_STEEPEST, P95 * p95 / above - 1)
    return _Survivors(start=0.0, p95=p95, longest=longest, exponent=max(1.0, exponent))


def response_lengths(batch: Batch, shares: Iterable[float]) -> tuple[float, ...]:
    """Tokens that these shares of the responses exceed, each at least as long as that of a larger share."""
    survivors = _survivors(batch)
    return tuple(survivors.length(share) for share in shares)


def drain(batch: Batch) -> tuple[Band, ...]:
    """The steps after the first response of a full batch has ended, in parts.

    Responses end evenly between ``2 r - R`` and the maximum R for a mean r of at least ``R / 2``. Where the
    mean is smaller, or the 95th percentile q is known, 5 % of them end evenly between q and R, and the others
    up to q such that the mean is r: evenly, or most of them early. Without q it is that of responses between
    0 and ``2 r``. A part's share is the mean of the sequences that run in it, so tokens add up.
    """
    survivors = _survivors(batch)
    bands = []
    for upper, lower in pairwise(assume.DRAIN_SHARES):
        steps = survivors.length(lower) - survivors.length(upper)
        if steps > 0:
            tokens = survivors.tokens(upper) - survivors.tokens(lower)
            bands.append(Band(share=tokens / steps, steps=steps))
    return tuple(bands)
