"""``.. call-trace::``: the calls of a consultation in their order, as a run of it was heard to make them."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import tuner
from tuner.consultation import consult
from tuner.consultation.premises import Premises

_FOLDER = Path(tuner.__file__).parent
_PROGRAM = str(_FOLDER) + os.sep
_FOLLOWED = os.path.join(_PROGRAM, "consultation")  # noqa: PTH118 - compared with names of files
_TRANSPARENT = {Premises.read.__code__}  # what passes it is called by whoever called it
_ROOM_COLUMN = 46
_LEFT_OUT = ("<", "__")  # comprehensions, lambdas and what Python calls by itself
_WORDS = "language"  # the room of messages, which every other one asks


@dataclass
class Call:
    """A function, and what it calls; calls of a function that was called before are not told again."""

    name: str
    room: str
    calls: dict[CodeType, "Call"] = field(default_factory=dict)


def trace_calls(example: str, words: list[str], premises: Premises) -> Call:
    """The calls that a consultation makes, down to the first one that leaves its package."""
    top = Call(consult.consult.__name__, "consultation")
    followed: dict[CodeType, Call] = {consult.consult.__code__: top}

    def hear(frame: FrameType, event: str, _argument: object) -> None:
        code, caller = frame.f_code, frame.f_back
        if event != "call" or caller is None or code in followed or code in _TRANSPARENT:
            return
        parent = _caller(caller, followed)
        called = None if parent is None else _call(code)
        if parent is None or called is None or code in parent.calls:
            return
        parent.calls[code] = called
        if code.co_filename.startswith(_FOLLOWED):
            followed[code] = called

    before = sys.getprofile()  # of a build that is being profiled
    sys.setprofile(hear)
    try:
        consult.consult(example, words, premises)
    finally:
        sys.setprofile(before)
    return top


def _caller(frame: FrameType | None, followed: dict[CodeType, Call]) -> Call | None:
    """The followed function that a call was made in, be it in a comprehension or a function within it."""
    while frame is not None:
        if frame.f_code in followed:
            return followed[frame.f_code]
        file = frame.f_code.co_filename
        if file.startswith(_PROGRAM) and not file.startswith(_FOLLOWED):
            return None  # it went down to another room, which makes its calls by itself
        frame = frame.f_back
    return None


def _call(code: CodeType) -> Call | None:
    """A call of a function of the program; None of another, and of one without a name."""
    file = code.co_filename
    if not file.startswith(_PROGRAM) or code.co_name.startswith(_LEFT_OUT):
        return None
    room = Path(file).relative_to(_FOLDER).with_suffix("").parts[0]
    return None if room == _WORDS else Call(code.co_name, room)


def lines(call: Call, depth: int = 0) -> Iterator[str]:
    """A call and those that it makes, each with its room."""
    name = "  " * depth + call.name.removeprefix("_")
    yield f"{name:{_ROOM_COLUMN}}{call.room}".rstrip()
    for inner in call.calls.values():
        yield from lines(inner, depth + 1)


class CallTrace(SphinxDirective):
    """What an answer takes, call by call."""

    def run(self) -> list[nodes.Node]:
        """A literal block that is the same in every language."""
        example = _FOLDER.parent / "docs/examples/qwen2.5-7b-grpo.yaml"
        premises = Premises(gpu="8xh100-sxm", verl_version="0.9.1", network="400Gb/s")
        text = "\n".join(lines(trace_calls(str(example), [], premises)))
        block = nodes.literal_block(text, text, language="text", translatable=False)
        return [block]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("call-trace", CallTrace)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
