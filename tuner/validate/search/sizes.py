"""Sizes of a micro-batch that can be tried, and the largest that the memory model lets fit."""

from math import ceil

from tuner.validate.session import Subject
from tuner.validate.training.passes import PlannedPass

LEAST_TOKENS = 128  # below it nothing is worth knowing


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
