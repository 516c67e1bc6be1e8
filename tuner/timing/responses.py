"""How long the responses of one engine are, and in which order they come."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from math import erf, exp, log, sqrt

from msgspec import Struct

from tuner.workload import P95, Batch

#: Standard deviation of the logarithm of lengths where nobody says their 95th percentile: of the log-normal
#: spread from which the whole runs of ``docs/validation`` draw theirs, with a median of 600 tokens and one in
#: 25 beyond 2,048. Heuristic. Its interval is that of the longest response: from evenly spread lengths, whose
#: 95th percentile is 1.9 times the mean, as with 0.45, to any that reach the maximum.
SIGMA = 0.7

_STEEPEST = 64.0  # exponent of a bulk whose mean its 95th percentile hardly allows
_LONGEST = 8  # responses of an engine that are told apart, from the longest on
_GROUPS = 24  # of the others, by length
_SPLIT = 2  # parts of a group, which do not come together
PARTS = _GROUPS * _SPLIT  # of them all
_NORMAL_P95 = 1.6448536269514722  # standard normal number that 95 % do not exceed
_GOLDEN = 0.618033988749895  # multiples of it, without their whole part, lie evenly and in no order


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
        """Tokens of this share of responses, the longest ones, over all responses."""
        beyond = 1 - P95
        if share < beyond:
            return (self.longest + self.length(share)) * share / 2
        tail = (self.longest + self.p95) * beyond / 2
        part = (share - beyond) / P95
        fall: float = part ** (1 / self.exponent) * self.exponent / (self.exponent + 1)
        return tail + (share - beyond) * (self.p95 - (self.p95 - self.start) * fall)


def _survivors(batch: Batch) -> _Survivors:
    mean, p95, longest = batch.mean_response_tokens, batch.response_p95_tokens, longest_response(batch)
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


@lru_cache(maxsize=256)
def longest_response(batch: Batch) -> float:
    r"""Tokens of the longest response of a step; of a round, where there are several.

    Where nobody says, the largest of n lengths that is expected of a log-normal spread with the mean r, no
    less than evenly spread ones reach, no more than the maximum R:

    .. math:: r \, e^{\sigma z_n - \sigma^2 / 2}

    with the largest :math:`z_n` of n standard normal numbers. Where the 95th percentile q is known,
    :math:`q / r = e^{1.645 \sigma - \sigma^2 / 2}`, at most 3.9; else :math:`\sigma` is assumed.
    """
    stated = batch.lengths.response_max
    longest = max(evenly_longest(batch), _largest_drawn(batch)) if stated is None else float(stated)
    return min(float(batch.longest_response_tokens), max(longest, batch.response_p95_tokens))


def evenly_longest(batch: Batch) -> float:
    """The longest of responses that are spread evenly, with the mean or the 95th percentile of the job."""
    p95 = batch.lengths.response_p95
    reach = batch.mean_response_tokens + batch.response_spread
    return min(float(batch.longest_response_tokens), reach if p95 is None else p95 / P95)


def _largest_drawn(batch: Batch) -> float:
    mean, p95 = batch.mean_response_tokens, batch.response_p95_tokens
    if mean <= 0 or p95 <= mean:
        return mean
    sigma = SIGMA
    if batch.lengths.response_p95 is not None:
        sigma = _NORMAL_P95 - sqrt(max(0.0, _NORMAL_P95**2 - 2 * log(p95 / mean)))
    return mean * exp(sigma * largest_normal(batch.generated_at_a_time) - sigma**2 / 2)


def response_lengths(batch: Batch, shares: Iterable[float]) -> tuple[float, ...]:
    """Tokens that these shares of the responses exceed, each at least as long as that of a larger share."""
    survivors = _survivors(batch)
    return tuple(survivors.length(share) for share in shares)


@lru_cache(maxsize=256)
def slowest_responses(
    batch: Batch, *, sequences: int, engines: int, simulated: int | None = None, parts: int = PARTS
) -> tuple[tuple[int, int], ...]:
    r"""Responses of the engine that ends last, in the order in which they come: how many, and their tokens.

    Lengths are spread evenly between ``2 r - R`` and the maximum R for a mean r of at least ``R / 2``. Where
    the mean is smaller, or the 95th percentile q is known, 5 % of them lie evenly between q and the longest
    that is given or expected (:func:`longest_response`), which R stands for from here on, and the
    others up to q such that the mean is r: evenly, or most of them early. Without q it is that of responses
    between 0 and ``2 r``.

    An engine gets N of the step's responses at random. The longest of all is among those of the slowest of
    D engines, and their mean is what the largest of D sums comes to, about

    .. math:: r \left(1 + \frac{\sigma}{r} \frac{z_D}{\sqrt{N}}\right)

    with the largest :math:`z_D` of D standard normal numbers. Each response is longer by that factor, as far
    as R allows. The other engines are done before, so the phase ends with this one and no other is simulated.
    Lengths of responses to one prompt are alike in truth, which parts the engines further and is not counted.

    Args:
        batch: what is known of the lengths.
        sequences: N, of one engine.
        engines: D.
        simulated: give so many of them, of the same lengths; all unless told.
        parts: in which those behind the few longest come, of like lengths each, two groups of a length.
    """
    survivors, responses = _survivors(batch), simulated or sequences
    groups = [
        (last - first, (survivors.tokens(last / responses) - survivors.tokens(first / responses)) * responses)
        for first, last in _ranks(responses, parts // _SPLIT)
    ]
    mean = sum(tokens for _, tokens in groups) / responses
    lengths = [tokens / count for count, tokens in groups]
    variance = sum(count * (length - mean) ** 2 for (count, _), length in zip(groups, lengths, strict=True))
    longer = 1.0
    if engines > 1 and mean > 0:
        longer += sqrt(variance / responses) / mean * largest_normal(engines) / sqrt(sequences)
        lengths[0] = survivors.length(1 / (2 * sequences * engines))
    limit = survivors.longest
    whole = [max(1, round(min(limit, length * longer))) for length in lengths]
    return _in_order([(count, tokens) for (count, _), tokens in zip(groups, whole, strict=True)])


def _ranks(sequences: int, most_groups: int) -> list[tuple[int, int]]:
    """Places in the order from the longest on, the first few one by one and the others in groups."""
    single = min(_LONGEST, sequences)
    grouped = sequences - single
    groups = min(most_groups, grouped)
    cuts = [single + grouped * index // groups for index in range(groups + 1)] if groups else []
    return [(rank, rank + 1) for rank in range(single)] + list(pairwise(cuts))


def _in_order(groups: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Parts of the groups in an order that is fixed and has nothing to do with their lengths."""
    parts = [
        (count * (part + 1) // _SPLIT - count * part // _SPLIT, tokens)
        for part in range(_SPLIT)
        for count, tokens in groups
    ]
    placed = sorted(((index + 1) * _GOLDEN % 1, *part) for index, part in enumerate(parts) if part[0])
    return tuple((count, tokens) for _, count, tokens in placed)


@lru_cache(maxsize=256)
def largest_normal(count: int) -> float:
    """The largest of n standard normal numbers, expected: ``P(x) = (n - 3/8) / (n + 1/4)`` (Blom 1958)."""
    # Halved here: the standard library's inverse comes with an import that every short run would pay for.
    share, low, high = (count - 0.375) / (count + 0.25), 0.0, 8.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + erf(middle / sqrt(2))) / 2 < share else (low, middle)
    return low
