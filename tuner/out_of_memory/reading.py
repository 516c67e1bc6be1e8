"""The error in a text that was printed when memory ran out: a line, a traceback, the end of a log."""

from collections.abc import Sequence
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct

from tuner.out_of_memory.allocator import AllocatorMessage, read_message
from tuner.out_of_memory.kinds import ErrorKind, MatchedWording, said_in
from tuner.out_of_memory.printed_lines import cleaned
from tuner.out_of_memory.stack import STACK_BEGINS, Call, calls, calls_after

_JOINED = 40  # lines over which a pasted message may be broken
_LONGEST = 4000  # characters of such a message
MOST_BEFORE = 5000  # lines above an error in which its stack is looked for, of other processes too
MOST_BEHIND = 400  # lines below it
_MOST = 300  # lines that are looked at; a log repeats its errors
# One of which is in the line that begins a message, wherever the message is broken.
_MARKS = (
    "CUDA out",
    "HIP out",
    "NPU out",
    "out of memory",
    "Out of memory",
    "Tried to",
    "OutOfMemory",
    "OUT_OF_MEMORY",
    "ALLOC_FAILED",
    "cudaErrorMemoryAllocation",
    "No available memory",
    "Not enough memory",
    "torch_memory_saver",
    "seq len (",
    "Free memory on",
    "Memory on the node",
    "low on memory",
    "memory pressure",
    "oom-kill",
    "OOMKilled",
    "SIGKILL",
    "exit",
    "signal: Killed",
)


class OutOfMemory(Struct, frozen=True, kw_only=True):
    """An error and all that the text says around it."""

    kind: ErrorKind
    text: Annotated[str, Meta(description="the line, without what a launcher put in front of it")]
    line: Annotated[int, Meta(description="its number in the text that was given, from 1")]
    engine: Annotated[str, Meta(description="the rollout engine whose words they are; empty for others")] = ""
    figures: tuple[tuple[str, float], ...] = ()
    allocator: AllocatorMessage | None = None  # of PyTorch's message
    calls: tuple[Call, ...] = ()

    def figure(self, name: str) -> float | None:
        """A number of the message by its name; None where it does not say."""
        return dict(self.figures).get(name)


def read_out_of_memory(text: str) -> OutOfMemory | None:
    """The first error of a text that says that memory ran out; None where there is none.

    A process that was merely killed counts where nothing else is said: Ray reports it of every process
    that goes down with the one that ran out.
    """
    raw = text.splitlines()
    best: tuple[int, MatchedWording] | None = None
    for place in _marked(text, raw):
        said = _wording_at(raw, place)
        if said is not None and (best is None or _order(said) < _order(best[1])):
            best = place, said
            if not _order(said):
                break
    return None if best is None else _read(raw, *best)


def _read(raw: Sequence[str], place: int, said: MatchedWording) -> OutOfMemory:
    """The error that begins in a line."""
    kind, text = said.wording.kind, _joined(raw, place)
    message = read_message(text) if kind in (ErrorKind.ALLOCATION, ErrorKind.SAMPLER) else None
    further = said if said.figures else said_in(text, only=kind)
    return OutOfMemory(
        kind=kind,
        text=cleaned(raw[place]).text.strip(),
        line=place + 1,
        engine=said.wording.engine,
        figures=said.figures if further is None else further.figures,
        allocator=None if message is None or message.requested is None else message,
        calls=_calls(raw, place),
    )


def _marked(text: str, raw: Sequence[str]) -> list[int]:
    """The lines that may begin a message, the first of them."""
    marks = [mark for mark in _MARKS if mark in text]
    places = (place for place, line in enumerate(raw) if any(mark in line for mark in marks))
    return list(islice(places, _MOST)) if marks else []


def _order(said: MatchedWording) -> int:
    """Errors first that say what ran out, then those that leave it open."""
    return {ErrorKind.UNSIZED: 1, ErrorKind.KILLED: 2}.get(said.wording.kind, 0)


def _wording_at(raw: Sequence[str], place: int) -> MatchedWording | None:
    text = cleaned(raw[place]).text
    said = said_in(text)
    clear = said is not None and said.wording.kind is not ErrorKind.UNSIZED
    # A message may be broken over lines: then the next ones hold the rest of its words.
    return said if clear else said_in(_joined(raw, place), within=len(text))


def _joined(raw: Sequence[str], place: int) -> str:
    """A line and those that its message may go on in."""
    first = cleaned(raw[place])
    parts, length = [first.text.rstrip()], len(first.text)
    for line in map(cleaned, raw[place + 1 : place + _JOINED]):
        length += len(line.text)
        if (
            not line.text.strip()
            or "Traceback" in line.text
            or line.source != first.source
            or length > _LONGEST
        ):
            break
        parts.append(line.text.strip())
    return " ".join(parts)


def _calls(raw: Sequence[str], place: int) -> tuple[Call, ...]:
    """The stack of the error: that of its own process, before the error, or behind what a library printed."""
    source = cleaned(raw[place]).source
    before: list[str] = []
    for line in map(cleaned, reversed(raw[max(0, place - MOST_BEFORE) : place])):
        if line.source == source:
            before.append(line.text)
            if STACK_BEGINS in line.text:
                break
    behind = map(cleaned, raw[place + 1 : place + 1 + MOST_BEHIND])
    return calls(before[::-1]) or calls_after([line.text for line in behind if line.source == source])
