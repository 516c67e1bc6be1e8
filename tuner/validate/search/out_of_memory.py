"""The figures of an allocator's message, by the names that a measurement has for them."""

from tuner.out_of_memory.allocator import read_message


def told_by_allocator(text: str) -> dict[str, int]:
    """What was asked for, free, allocated, and reserved but unallocated, as far as the message says.

    The last is what fragments hold back: a prediction of allocated bytes does not count it.
    """
    message = read_message(text)
    figures = {
        "failed_request_bytes": None if message.requested is None else round(message.requested.bytes),
        "failed_free_bytes": message.free_bytes,
        "failed_allocated_bytes": message.allocated_bytes,
        "failed_unallocated_bytes": message.unused_bytes,
    }
    return {name: figure for name, figure in figures.items() if figure is not None}
