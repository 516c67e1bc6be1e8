"""A Python stack of calls, read off a traceback that somebody pasted."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

# Compiled when a stack is read.
_CALL = r'\s*File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9}), in (?P<function>\S.{0,200})'
_RICH = r"\s*(?P<file>\S{1,1000}\.py):(?P<line>\d{1,9}) in (?P<function>[\w<>.]{1,200})\s*$"
# The head of a task of Ray: ray::WorkerDict.actor_rollout_update_actor() (pid=2396579, ip=10.242.3.193)
_TASK = r"ray::(?P<function>[\w.]{1,200})\(\)"
STACK_BEGINS = "Traceback (most recent call last)"
_MOST_CALLS = 400


class Call(Struct, frozen=True, kw_only=True):
    """One call of a stack: where it stands, and what is written there."""

    function: str
    file: str = ""  # empty for a task of Ray
    line: int | None = None
    code: str = ""  # the line of the program; empty where the paste lacks it

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.file.replace("\\", "/").rpartition("/")[2]


def calls_after(lines: Sequence[str]) -> tuple[Call, ...]:
    """The calls of the first traceback in these lines."""
    first = next((place for place, line in enumerate(lines) if STACK_BEGINS in line), None)
    if first is None:
        return ()
    rest = lines[first + 1 :]
    end = next((place for place, line in enumerate(rest) if STACK_BEGINS in line), len(rest))
    return calls(rest[:end])


def calls(lines: Iterable[str]) -> tuple[Call, ...]:
    """All calls in these lines, as they stand."""
    found: list[Call] = []
    written = False  # whether the last call still waits for its line of the program
    for line in lines:
        call = re.match(_CALL, line) or re.match(_RICH, line)
        task = None if call else re.search(_TASK, line)
        if call is not None:
            function = call["function"].split("(")[0].strip()
            found.append(Call(function=function, file=call["file"], line=int(call["line"])))
        elif task is not None:
            found.append(Call(function=task["function"]))
        elif written and line.strip(" ^~"):
            last = found[-1]
            found[-1] = Call(function=last.function, file=last.file, line=last.line, code=line.strip()[:400])
        written = call is not None
    return tuple(found[-_MOST_CALLS:])
