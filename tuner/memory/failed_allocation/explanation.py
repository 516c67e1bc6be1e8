"""Explains a failed allocation: which tensor of a job has the size that the error message names.

``CUDA out of memory. Tried to allocate 13.91 GiB`` names one tensor. Its size, solved for the tokens,
tells which: 13.91 GiB are 24,555 tokens times 152,064 vocabulary entries times 4 bytes. The message
has two decimals and PyTorch rounds up to 2 MiB what it asks the driver for, so the size is an
interval, and so are the tokens.
"""

from collections.abc import Iterable
from math import ceil, floor, isqrt

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.errors import InputError
from tuner.language import _
from tuner.memory.failed_allocation.tensor import Tensor
from tuner.out_of_memory.allocator import AllocatorMessage, PrintedSize, read_message, read_size
from tuner.units import MIB

# c10/cuda/CUDACachingAllocator.cpp: kSmallSize, kSmallBuffer, kLargeBuffer, kRoundLarge
_SMALL = MIB
_SMALL_BUFFER = 2 * MIB
_LARGE_BUFFER = 20 * MIB
_ROUND = 2 * MIB

_ROUND_TOKENS = 1024  # budgets and lengths are set in whole numbers of it


class Confidence(Enum):
    """How much a match says, the most first."""

    EXACT = "exact"  # nothing was left to choose: a tensor without tokens, or a full micro-batch
    LIKELY = "likely"  # the tokens of a micro-batch that is more than half full
    POSSIBLE = "possible"  # fewer tokens: some number of them always fits
    OVERFULL = "overfull"  # more tokens than a micro-batch of this configuration holds
    TOO_LONG = "too_long"  # pairs of more tokens than the longest sequence of this configuration has


_RANKED = tuple(Confidence)


class FailedAllocation(Struct, frozen=True, kw_only=True):
    """What an out-of-memory message says, in bytes."""

    text: str  # the size as written: "13.91 GiB"
    bytes: int
    low_bytes: int  # that the tensor can have, by the rounding of message and allocator: one at least
    high_bytes: int
    free_bytes: int | None = None  # on the card
    unused_bytes: int | None = None  # reserved by PyTorch, in no tensor


class Match(Struct, frozen=True, kw_only=True):
    """A tensor that can have the size of a failed allocation."""

    tensor: Tensor
    confidence: Confidence
    tokens: int | None = None  # solved for; None for a tensor without tokens
    low_tokens: int | None = None
    high_tokens: int | None = None

    @property
    def formula(self) -> str:
        """The product in numbers: ``24,555 tokens x 152,064 vocabulary entries x 4 bytes``."""
        tensor = self.tensor
        factors = [f"{count:,} {counted}" for count, counted in tensor.factors]
        if self.tokens is not None:
            tokens = _("{tokens:,} tokens").format(tokens=self.tokens)
            factors = [tokens] * (2 if tensor.quadratic else 1) + factors
        shared = _(" / {ranks:,} ranks").format(ranks=tensor.ranks) if tensor.ranks > 1 else ""
        size = _(" x {dtype} bytes").format(dtype=tensor.dtype_bytes) if tensor.dtype_bytes > 1 else ""
        return " x ".join(factors) + shared + size

    @property
    def claimed(self) -> bool:
        """Whether the match says more than that some number of tokens always fits."""
        return self.confidence in (Confidence.EXACT, Confidence.LIKELY)


def parse_failed_allocation(text: str) -> FailedAllocation:
    """Read a size such as ``18.54 GiB``, or the whole line of an error message that holds one.

    Raises:
        InputError: there is no size in it.
    """
    message = read_message(text)
    size = message.requested or read_size(text)
    if size is None:
        hint = _("give a size such as '18.54 GiB', or the line with 'Tried to allocate 18.54 GiB'")
        raise InputError(_("there is no failed allocation in {text!r}").format(text=text), hint=hint)
    return failed_allocation(size, message)


def failed_allocation(size: PrintedSize, message: AllocatorMessage) -> FailedAllocation:
    """A request of this size, with what the message around it says of the card."""
    low, high = requested_bytes(ceil(size.bytes - size.half_step), floor(size.bytes + size.half_step))
    return FailedAllocation(
        text=size.text,
        bytes=round(size.bytes),
        low_bytes=low,
        high_bytes=high,
        free_bytes=message.free_bytes,
        unused_bytes=message.unused_bytes,
    )


def requested_bytes(low: int, high: int) -> tuple[int, int]:
    r"""What a tensor may have asked for when the allocator reports a block between two sizes.

    .. math:: block = 2\,\text{MiB} \, \lceil tensor / 2\,\text{MiB} \rceil

    Requests up to 1 MiB come in blocks of 2 MiB, those below 10 MiB in blocks of 20 MiB. A size that
    is no whole number of 2 MiB comes from another allocator and is taken as it is.

    Source: torch ``c10/cuda/CUDACachingAllocator.cpp`` (``get_allocation_size``).
    """
    first, last = ceil(low / _ROUND) * _ROUND, high // _ROUND * _ROUND
    if last < max(first, _ROUND):
        return max(1, low), high
    if first <= _SMALL_BUFFER:
        return 1, last if last > _SMALL_BUFFER else _SMALL
    if first <= _LARGE_BUFFER <= last:
        return _SMALL + 1, last
    return first - _ROUND + 1, last


def match(tensor: Tensor, failed: FailedAllocation) -> Match | None:
    r"""Whether a tensor can have the size, and with how many tokens.

    .. math:: T = bytes / (f_1 f_2 \ldots b)

    Micro-batches are packed up to a budget. Where there is more than one, the fullest is more than half
    full, since :math:`k` micro-batches are made of more than :math:`k - 1` budgets; a single one may hold
    any number of tokens. One of a fixed number of sequences runs out of memory when they have grown. So a
    number of tokens between a half and a whole micro-batch says something; a smaller one can be found for
    any size. A budget that was larger in the job that failed explains a fuller micro-batch; nothing explains
    a sequence beyond the longest.
    """
    unit, full = tensor.unit_bytes, tensor.tokens
    if full is None:
        exact = failed.low_bytes <= unit <= failed.high_bytes
        return Match(tensor=tensor, confidence=Confidence.EXACT) if exact else None
    low, high = -(-failed.low_bytes // unit), failed.high_bytes // unit
    nearest = round(failed.bytes / unit)
    if tensor.quadratic:
        low, high, nearest = isqrt(low - 1) + 1, isqrt(high), isqrt(nearest)
    if high < low:
        return None
    tokens = _likeliest(low, high, min(max(nearest, low), high))
    if low <= full <= high:
        confidence, tokens = Confidence.EXACT, full
    elif low > full > 0:
        confidence = Confidence.TOO_LONG if tensor.quadratic else Confidence.OVERFULL
    elif not tensor.quadratic and 2 * tokens > full:
        confidence = Confidence.LIKELY
    else:
        confidence = Confidence.POSSIBLE
    return Match(tensor=tensor, confidence=confidence, tokens=tokens, low_tokens=low, high_tokens=high)


def _likeliest(low: int, high: int, nearest: int) -> int:
    """The number of tokens to name: a round one that gives the figure, else the nearest to the figure.

    Of round ones the roundest: 49,152 and not 49,151, which two decimals of a GiB do not tell apart.
    """
    step = _ROUND_TOKENS
    if low > high // step * step:
        return nearest
    while low <= high // (2 * step) * (2 * step):
        step *= 2
    return high // step * step


def matches(failed: FailedAllocation, tensors: Iterable[Tensor]) -> tuple[Match, ...]:
    """The tensors that can have the size, the one that leaves least to choose first."""
    results = [result for result in (match(tensor, failed) for tensor in tensors) if result is not None]
    return tuple(sorted(results, key=_rank))


def _rank(candidate: Match) -> tuple[int, float]:
    """By confidence, then by how near the micro-batch is to a full one."""
    fullness = (
        candidate.tokens / candidate.tensor.tokens if candidate.tokens and candidate.tensor.tokens else 0.0
    )
    return _RANKED.index(candidate.confidence), fullness if fullness > 1 else -fullness
