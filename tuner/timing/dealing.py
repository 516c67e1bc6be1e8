"""What sequences of unequal lengths do to ranks that wait for each other.

Nothing is drawn: what the slowest rank has is an expectation over all ways to deal the lengths out.
"""

from functools import lru_cache
from math import exp, gamma, hypot, lgamma, log, sqrt

from tuner.timing.responses import largest_normal, response_lengths
from tuner.workload import Batch

#: Places of a distribution at which lengths are looked up, evenly spread over the sequences.
_PLACES = 32


def slowest_mean(batch: Batch, *, sequences: int, ranks: int, drawn: float = 0.0) -> float:
    r"""Mean length of the sequences of the slowest rank, expected where each rank is dealt as many at random.

    The largest of three, of which each is right for some lengths and none above what others are right for,
    and each grows with every length. D ranks have k sequences each, whose lengths have the mean m and the
    standard deviation :math:`\sigma`.

    - Lengths that differ little: the largest mean of k numbers between -1 and 1 is t, and the slowest rank
      has sequences at :math:`u^{(1 - t) / (1 + t)}` of the distribution of lengths where others have them at
      u. For k = 1 it is the longest of D. Prompts and responses are independent, so what they add to their
      means adds as the sides of a right angle do.
    - Many sequences, of which few are long: :math:`m + \min(z_D / \sqrt{k}, 1 / \sqrt{3}) \, \sigma` with
      the largest :math:`z_D` of D standard normal numbers.
    - Few sequences, of which hardly any is long: the longest of all and k - 1 average ones.

    Args:
        batch: the lengths.
        sequences: of each rank, k.
        ranks: how many there are, D.
        drawn: the share of a rank's own sequences that k are, where all ranks were given as many tokens in
            the whole; 0 where ranks were given what came.

    Responses to one prompt are taken to differ as much as those to others: where prompts decide the length,
    ranks differ less, since each has some of the responses to every prompt of a mini-batch.
    """
    if ranks < 2 or drawn >= 1:
        return batch.mean_sequence_tokens
    many, left = max(1, sequences), sqrt(1 - drawn)
    normal = largest_normal(ranks) * left / sqrt(many)
    even = _excess(batch, round(min(normal / sqrt(3), _largest_even(many, ranks) * left), 6))
    spread = min(normal, 1 / sqrt(3)) * sqrt(_variance(batch))
    return batch.mean_sequence_tokens + max(even, spread, left * _one_long(batch, many, ranks))


def longest_tokens(batch: Batch, *, sequences: int) -> float:
    """The longest of so many sequences, expected."""
    return batch.mean_sequence_tokens + _excess(batch, round(_largest_even(1, sequences), 6))


@lru_cache(maxsize=256)
def attended_tokens(batch: Batch) -> float:
    r"""The length of the sequence that a token is in, on average: :math:`E[l^2] / E[l]`.

    Attention goes by the sum of the squares of lengths, in which long sequences count for more than they are
    many.
    """
    mean = batch.mean_sequence_tokens
    return mean + _variance(batch) / mean


@lru_cache(maxsize=256)
def _variance(batch: Batch) -> float:
    """Variance of the lengths of sequences, in tokens squared."""
    places = _response_places(batch, 1.0)
    middle = sum(places) / _PLACES
    responses = sum((length - middle) ** 2 for length in places) / _PLACES
    return responses + batch.prompt_spread**2 / 3


@lru_cache(maxsize=256)
def sorted_means(batch: Batch, parts: int) -> tuple[float, ...]:
    """Mean lengths of as many equal parts of all sequences, from the shortest sequences to the longest."""
    means = []
    for part in range(parts):
        low, high, places = part / parts, (part + 1) / parts, max(4, _PLACES // parts)
        shares = (1 - low - (high - low) * (place + 0.5) / places for place in range(places))
        responses = sum(response_lengths(batch, shares)) / places
        prompts = batch.mean_prompt_tokens + batch.prompt_spread * (low + high - 1)
        means.append(prompts + responses)
    return tuple(means)


@lru_cache(maxsize=256)
def arrival_means(batch: Batch, parts: int) -> tuple[float, ...]:
    """Mean lengths of as many equal parts of all sequences, from the response that ended first to the last.

    Responses that are generated at the same time end by their own lengths, whatever their prompts have.
    Where fewer run at a time than there are, later ones begin later, and the parts differ less than this.
    """
    means, places = [], max(4, _PLACES // parts)
    for part in range(parts):
        shares = (1 - (part + (place + 0.5) / places) / parts for place in range(places))
        means.append(batch.mean_prompt_tokens + sum(response_lengths(batch, shares)) / places)
    return tuple(means)


@lru_cache(maxsize=256)
def sorted_longest(batch: Batch, parts: int) -> float:
    """The longest sequence of each of so many equal parts of all sequences in order of length, on average."""
    ends = [(part + 1) / parts for part in range(parts)]
    responses = sum(response_lengths(batch, (1 - end for end in ends)))
    prompts = sum(batch.mean_prompt_tokens + batch.prompt_spread * (2 * end - 1) for end in ends)
    return (responses + prompts) / parts


@lru_cache(maxsize=512)
def _excess(batch: Batch, largest: float) -> float:
    """Tokens by which sequences are longer on the slowest rank than on average."""
    exponent = (1 + largest) / (1 - largest)
    responses = sum(_response_places(batch, exponent)) - sum(_response_places(batch, 1.0))
    return hypot(batch.prompt_spread * largest, max(0.0, responses) / _PLACES)


def _one_long(batch: Batch, sequences: int, ranks: int) -> float:
    """Tokens above the mean, per sequence, of the rank that has the longest of all beside average ones."""
    total, mean = sequences * ranks, batch.mean_sequence_tokens
    longest = longest_tokens(batch, sequences=total)
    other_mean = (total * mean - longest) / (total - 1)
    return max(0.0, (longest + (sequences - 1) * other_mean) / sequences - mean)


def _response_places(batch: Batch, exponent: float) -> tuple[float, ...]:
    """Lengths of responses at evenly spread places of their distribution, to the power of 1 / exponent."""
    return response_lengths(
        batch, (1 - ((place + 0.5) / _PLACES) ** (1 / exponent) for place in range(_PLACES))
    )


def _largest_even(sequences: int, ranks: int) -> float:
    """The largest of the means of some numbers each that lie evenly between -1 and 1, near the upper end.

    The sum of k numbers between 0 and 1 is within s of k with the probability ``s^k / k!``.
    """
    if sequences == 1:
        return (ranks - 1) / (ranks + 1)
    left = exp((lgamma(sequences + 1) - log(ranks)) / sequences) * gamma(1 + 1 / sequences)
    return max(0.0, 1 - 2 * left / sequences)
