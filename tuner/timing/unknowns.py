"""What nobody says of a job and its seconds hang on: the longest response, the groups that a filter keeps.

Each is priced at both of its ends, beside the typical value that the seconds themselves go by.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from tuner.timing.responses import evenly_longest, longest_response
from tuner.timing.spreads import SpreadFamily
from tuner.workload import KEPT_GROUPS_ENDS, Batch


class SecondsRange(Struct, frozen=True):
    """By how many seconds a phase may be shorter, below zero, and longer for one thing that nobody says."""

    family: SpreadFamily
    low_s: float
    high_s: float


class _Ends(Struct, frozen=True):
    family: SpreadFamily
    fastest: Batch
    slowest: Batch


def ranges_of(batch: Batch, seconds: float, priced: Callable[[Batch], float]) -> tuple[SecondsRange, ...]:
    """The ranges of a phase whose seconds hang on what is generated.

    Args:
        batch: of the job.
        seconds: of the phase.
        priced: the seconds of the phase for another batch.
    """
    ranges = (
        SecondsRange(
            family=ends.family,
            low_s=min(0.0, priced(ends.fastest) - seconds),
            high_s=max(0.0, priced(ends.slowest) - seconds),
        )
        for ends in _ends_of(batch)
    )
    return tuple(one for one in ranges if one.low_s or one.high_s)


@lru_cache(maxsize=256)
def _ends_of(batch: Batch) -> tuple[_Ends, ...]:
    return tuple(_each_end(batch))


def _each_end(batch: Batch) -> Iterator[_Ends]:
    """The batch at the ends of what nobody says.

    The longest response is no shorter than that of evenly spread lengths, and a response that repeats itself
    ends at the maximum alone. Shares of kept groups: ``tuner.workload.KEPT_GROUPS_ENDS``.
    """
    least, most = evenly_longest(batch), float(batch.longest_response_tokens)
    if batch.lengths.response_max is None and (least < most or longest_response(batch) < most):
        yield _Ends(SpreadFamily.LONGEST, _with_longest(batch, least), _with_longest(batch, most))
    filtered = batch.group_filter
    if filtered is not None and filtered.assumed:
        slow, fast = (
            replace(batch, group_filter=replace(filtered, kept_share=share)) for share in KEPT_GROUPS_ENDS
        )
        yield _Ends(SpreadFamily.GROUPS, fast, slow)


def _with_longest(batch: Batch, tokens: float) -> Batch:
    return replace(batch, lengths=replace(batch.lengths, response_max=round(tokens)))
