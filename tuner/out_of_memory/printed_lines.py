"""Lines as a program printed them, without what a terminal, Ray or a quotation put before them."""

import re

from msgspec import Struct

LONGEST = 2000  # characters of a line that are looked at

# Colours, also where a page lost the escape character and kept the rest of the sequence.
_COLOURS = re.compile(r"(?:\x1b|\u241b|\^\[)\[[0-9;?]*[ -/]*[@-~]|\[\d{1,3}(?:;\d{1,3})*m")
_SOURCE = re.compile(
    # Ray, which may name the actor too, and vLLM
    r"\((?P<process>[\w.<>:-]{0,80}(?: [\w.<>:-]{1,80})? ?pid=\d{1,10})(?:, ip=[\w.:]{1,40})?\) ?"
    r"|\[(?P<rank>(?:rank|default)\d{1,6})\]: ?"  # torch, torchrun
    r"|\((?P<daemon>raylet|autoscaler|gcs_server)\) ?"
)
_STAMP = re.compile(
    r"(?:ERROR|WARNING|INFO|CRITICAL):? \d\d-\d\d \d\d:\d\d:\d\d (?:\[[\w./:-]{1,80}\] ?)?"  # vLLM
    r"|\[?\d{4}-\d\d-\d\d[T ,_]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?(?: TP\d+)?\]? ?(?:- )?"
    r"|> |E {3}(?= )"  # a quotation, pytest
)
_BARS = ("\u2502", "|")


class PrintedLine(Struct, frozen=True):
    """One line and the process that printed it, empty where it does not say."""

    text: str
    source: str = ""


def cleaned(raw: str, *, longest: int = LONGEST) -> PrintedLine:
    """One line without what stands in front of it.

    Args:
        raw: as it was printed.
        longest: characters of it that are looked at.
    """
    source, rest = "", _COLOURS.sub("", raw[:longest]).lstrip("\r")
    while True:
        before = rest
        said = _SOURCE.match(rest)
        if said is not None:
            source, rest = said["process"] or said["rank"] or said["daemon"], rest[said.end() :]
        stamp = _STAMP.match(rest)
        if stamp is not None:
            rest = rest[stamp.end() :]
        if rest == before:
            break
    if rest[:1] in _BARS:  # the frame around rich's tracebacks
        rest = rest[1:].rstrip().rstrip("".join(_BARS)).rstrip().removeprefix(" ")
    return PrintedLine(rest, source)
