"""What was on a card when an allocation failed, by the message and by the model."""

from math import ceil

from msgspec import Struct

from tuner.advise.allocation import fragmented
from tuner.memory import PhaseEstimate
from tuner.memory.failed_allocation.explanation import FailedAllocation
from tuner.out_of_memory.allocator import AllocatorMessage, Process
from tuner.units import GIB

_STRANGE = 3 * GIB  # beside the allocator and not in the model: more than contexts and communicators vary by
_FULLER = 1.1  # times what the model has in tensors
_OWN_SPREAD = 8 * GIB  # beside its allocator; a process that holds more is not the one that failed


class CardUse(Struct, frozen=True, kw_only=True):
    """What was on the card when the allocation failed, by the message, and by the model; None: not said."""

    total_bytes: int | None
    free_bytes: int | None
    tensor_bytes: int | None
    unused_bytes: int | None  # reserved by PyTorch, in no tensor
    beside_bytes: int | None  # outside this process's PyTorch: its context, libraries, other processes
    modelled_tensor_bytes: int | None  # at the peak of the phase
    modelled_beside_bytes: int | None
    others: tuple[Process, ...] = ()  # processes that are not the one that failed
    fragmented: bool = False  # enough was free or reserved, in pieces
    strange_bytes: int | None = None  # beside it and not in the model
    fuller: bool = False  # more in tensors than the model has at the peak
    other_card: bool = False  # the card has another size than the one that was judged for


def card_of(
    message: AllocatorMessage | None,
    failed: FailedAllocation | None,
    phase: PhaseEstimate | None,
    *,
    capacity: int | None,
) -> CardUse | None:
    """The figures of an allocator's message beside those of the model; None where it has none."""
    if message is None or failed is None or (message.free_bytes is None and message.allocated_bytes is None):
        return None
    tensors, unused = message.allocated_bytes, message.unused_bytes
    beside_bytes = None
    if message.total_bytes is not None and message.free_bytes is not None and tensors is not None:
        beside_bytes = max(0, message.total_bytes - message.free_bytes - tensors - (unused or 0))
    modelled = None if phase is None else phase.allocated_bytes
    modelled_beside = None
    if phase is not None:
        modelled_beside = sum(term.bytes for term in phase.peak.terms if not term.of_allocator)
    strange = None if beside_bytes is None or modelled_beside is None else beside_bytes - modelled_beside
    total = message.total_bytes
    return CardUse(
        total_bytes=total,
        free_bytes=message.free_bytes,
        tensor_bytes=tensors,
        unused_bytes=unused,
        beside_bytes=beside_bytes,
        modelled_tensor_bytes=modelled,
        modelled_beside_bytes=modelled_beside,
        others=_other_processes(message),
        fragmented=fragmented(failed),
        strange_bytes=strange if strange is not None and strange > _STRANGE else None,
        fuller=tensors is not None
        and modelled is not None
        and tensors + failed.low_bytes > _FULLER * max(1, modelled),
        other_card=total is not None
        and capacity is not None
        and abs(total - capacity) > _capacity_spread(capacity),
    )


def _capacity_spread(capacity: int) -> int:
    """Bytes by which cards of one kind may differ: profiles have what processes can have of a new one."""
    return ceil(0.04 * capacity)


def _other_processes(message: AllocatorMessage) -> tuple[Process, ...]:
    """The processes that the message names beside the one that failed, the largest first."""
    named = sorted(message.processes, key=lambda process: process.bytes, reverse=True)
    if message.own_bytes is not None:
        return tuple(named)
    held = (message.allocated_bytes or 0) + (message.unused_bytes or 0)
    own = [process for process in named if held <= process.bytes * 1.001 <= held + _OWN_SPREAD]
    return tuple(process for process in named if not own or process is not own[-1])
