"""The error in a text that was printed when memory ran out: a line, a traceback, the end of a log."""

from collections.abc import Sequence

from msgspec import Struct

from tuner.out_of_memory.allocator import AllocatorMessage, read_message
from tuner.out_of_memory.kinds import Kind, Said, said_in
from tuner.out_of_memory.printed import Line, lines
from tuner.out_of_memory.stack import Call, calls_after, calls_before

_JOINED = 40  # lines over which a pasted message may be broken
_FURTHER = 400  # lines behind an error in which its stack is looked for
# One of which is in every line that begins a message.
_WORDS = (
    "memory",
    "Memory",
    "MEMORY",
    "OutOfMemory",
    "OOM",
    "oom",
    "Tried to",
    "SIGKILL",
    "exit",
    "signal",
    "ALLOC",
    "seq len",
)


class OutOfMemory(Struct, frozen=True, kw_only=True):
    """An error and all that the text says around it."""

    kind: Kind
    text: str  # the line
    line: int  # its number in the text, from 1
    engine: str = ""  # the rollout engine whose words they are
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
    printed = list(lines(text))
    found = [(place, said) for place in range(len(printed)) if (said := _said(printed, place)) is not None]
    if not found:
        return None
    place, said = min(found, key=lambda one: (_order(one[1]), one[0]))
    kind = said.wording.kind
    message = read_message(_joined(printed, place)) if kind in (Kind.ALLOCATION, Kind.SAMPLER) else None
    near = (more for at, more in found if place <= at < place + _JOINED and more.wording.kind is kind)
    return OutOfMemory(
        kind=kind,
        text=printed[place].text.strip(),
        line=place + 1,
        engine=said.wording.engine,
        figures=next((more.figures for more in near if more.figures), ()),
        allocator=None if message is None or message.requested is None else message,
        calls=_calls(printed, place),
    )


def _order(said: Said) -> int:
    """Errors first that say what ran out, then those that leave it open."""
    return {Kind.UNSIZED: 1, Kind.KILLED: 2}.get(said.wording.kind, 0)


def _said(printed: Sequence[Line], place: int) -> Said | None:
    text = printed[place].text
    if not any(word in text for word in _WORDS):
        return None
    said = said_in(text)
    clear = said is not None and said.wording.kind is not Kind.UNSIZED
    # A message may be broken over lines: then the next ones hold the rest of its words.
    return said if clear else said_in(_joined(printed, place), within=len(text))


def _joined(printed: Sequence[Line], place: int) -> str:
    """A line and those that its message may go on in."""
    parts = [printed[place].text.rstrip()]
    for line in printed[place + 1 : place + _JOINED]:
        if not line.text.strip() or "Traceback" in line.text or line.source != printed[place].source:
            break
        parts.append(line.text.strip())
    return " ".join(parts)


def _calls(printed: Sequence[Line], place: int) -> tuple[Call, ...]:
    """The stack of the error: that of its own process, before the error, or behind what a library printed."""
    source = printed[place].source
    before = [line.text for line in printed[:place] if line.source == source]
    after = [line.text for line in printed[place + 1 : place + 1 + _FURTHER] if line.source == source]
    return calls_before(before) or calls_after(after)
