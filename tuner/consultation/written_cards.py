"""The card that people write down for a launch: in its script, or in a README or a setup script around it.

These also speak of other cards: of those that others have measured on, or that a reader may have. So a card
counts only with its number in front of it, ``8xH100``, ``8x80GB H100``, ``8 H100 GPUs`` or ``two H100``, or
behind it, ``H100-80G*8``, or with its memory behind it, ``H20 96GB``, and where nothing else that is written
in the same place names another.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from tuner.errors import InputError, Location
from tuner.files import files_like, is_there, read_bytes, repository_folders
from tuner.gpus import profile_named
from tuner.hardware import Gpu
from tuner.inputs.user_input import UserInput
from tuner.units import GIB, MIB

_READMES = ("README.md", "README.rst", "README.txt", "README")
_SETUPS = ("*setup*.sh", "*install*.sh", "scripts/*setup*.sh", "scripts/*install*.sh")
_MOST_BYTES = MIB
_MOST_OF_ONE_NODE = 8  # a number above is that of the whole job
_LONGEST_NAME = 4  # words: RTX 6000 Ada 48GB
_LIKE = 0.1  # share by which the memory that is written and the driver's may differ

_COMMENT = re.compile(r"\s*#(?!!|SBATCH\b)(.*)")
#: The name of a run in which its cards are counted, by a variable too: ``exp_name="grpo-${n}xA800"``.
_NAME = re.compile(
    r"\s*(?:export\s+)?\w*(?:name|run|exp)\w*=(.*?(?P<n>\d{1,3}|\$\{\w+\}|\$\(\w+\))x(?=[A-Za-z]{1,4}\d{2,3}).*)",
    re.IGNORECASE,
)
#: The row of a table that says what the project ran on.
_OF_HARDWARE = re.compile(
    r"\s*\|[\s*_`]*(?:infrastructure|hardware|gpus?|compute|cards?|machines?)\b", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!vs)(?<=[.!?])\s+(?=[A-Z])|(?<=[\u3002\uff01])")
_LINK = re.compile(r"\]\([^)\s]*\)|<?\bhttps?://\S+")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_TIMES = re.compile(r"(?<![\w.])(\d{1,3})\s*[x\u00d7*]\s*(?=[A-Za-z]|\d{4}\b|\d{2,3} ?G)", re.IGNORECASE)
_TIMES_BEHIND = re.compile(r"(?<=[A-Za-z\d)])\s*(?:[x\u00d7*]\s*|[*\u00d7])(\d{1,2})(?![\w.])", re.IGNORECASE)
_VARIABLE = re.compile(r"\$[({]?\w+[)}]?x?", re.IGNORECASE)
_WORD = re.compile(r"\d+x\b|[A-Za-z0-9]+")
_BEHIND = re.compile(r"x(\d{1,2})", re.IGNORECASE)
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_ONE = {"one": 1, "single": 1}  # of a card that is called a GPU: else it is any
_MEMORY = re.compile(r"(\d{1,3}) ?Gi?B?\b", re.IGNORECASE)
_MAKERS = frozenset({"nvidia", "geforce", "tesla", "amd", "instinct", "huawei"})
_MODEL = re.compile(r"(?:rtx|gtx)|[a-z]{1,4}\d{1,3}[a-z]{0,2}|\d{4}d?|\d{3}[a-z]", re.IGNORECASE)
_SEVERAL = frozenset({"gpus", "cards"})
_CALLED = _SEVERAL | {"gpu", "card"}
_DIGITS = 3  # of a number of cards
_OTHER_CARD = frozenset({"ti", "super", "d", "laptop", "mobile", "mobil", "pcie", "nvl", "mig", "max", "ada"})
#: What is said of others' runs, of a choice, or of the least that would do.
_DOUBT = re.compile(
    r"evaluat|inference|benchmark|result|report|baseline|measur|throughput|paper|recommend|minim|at least"
    r"|or more|e\.g\.|for example|get(?:ting)? started|tutorial|notebook|quota|such as|instead"
    r"|\b(?:if|when|unless|or|not|without|than|vs)\b",
    re.IGNORECASE,
)
#: What is said of a card that is not counted: it may be any that would do.
_ANY = re.compile(
    r"need|requir|fit|enough|least|\bper\b|\ban?\b|\bany\b|single|support|suit|lower|[<>\u2265\u2264]",
    re.IGNORECASE,
)


class WrittenCard(Struct, frozen=True, kw_only=True):
    """A card that a text names, and where."""

    name: str  # of its profile
    per_node: int | None  # of a number that one machine can have
    place: Location


class _Line(Struct, frozen=True):
    """A line that may name a card."""

    number: int
    text: str
    counts: bool  # else it only speaks against another card
    by_memory: bool = False  # a card that is not counted counts with its memory
    by_variable: bool = False  # a variable counts it


class _Mention(Struct, frozen=True):
    """A card in a line, with what stands in front of it."""

    gpu: Gpu
    count: int | None
    line: int
    told: bool = False  # by its memory, or a variable that counts it


def written_card(given: UserInput) -> WrittenCard | None:
    """The card of a script's comments, else of the README beside it; None where none is surely meant.

    Args:
        given: a launch that was read from a text.
    """
    if given.source.lower().endswith((".yaml", ".yml", ".json")):
        return None
    lines = [*_comments(given.text), *_names(given.text)]
    told = _only_card(lines, given.source)
    if told is not None or not given.folder or any(True for _ in _mentions(lines)):
        return told
    return next((card for card in _around(given) if card is not None), None)


def own_card(given: UserInput) -> WrittenCard | None:
    """The card that a script itself names, in its comments or in the name of its run."""
    return _only_card([*_comments(given.text), *_names(given.text)], given.source)


def _around(given: UserInput) -> Iterator[WrittenCard | None]:
    """The card of each text around a launch, the nearest first; none behind one that names several."""
    for above in repository_folders(Path(given.folder).absolute()):
        readme = next((file for name in _READMES if is_there(file := above / name, Path.is_file)), None)
        setups = [file for form in _SETUPS for file in files_like(above, form)]
        for file in (*([] if readme is None else [readme]), *setups):
            try:
                text = read_bytes(file, most=_MOST_BYTES).decode("utf-8", "replace")
            except InputError:  # larger than anybody writes one
                continue
            lines = list(_prose(text) if file == readme else _comments(text, by_memory=True))
            card = _only_card(lines, _name_beside(given, file))
            yield card
            if card is None and any(True for _ in _mentions(lines)) and file == readme:
                return


def _name_beside(given: UserInput, file: Path) -> str:
    """The name of a file around the script, as the script itself was named."""
    path = os.path.relpath(file, Path(given.folder).absolute())
    return os.path.normpath(Path(given.source).parent / path)


def _only_card(lines: Iterable[_Line], source: str) -> WrittenCard | None:
    """The card that some line counts, where no line names another one."""
    mentions = list(_mentions(lines))
    counted = next((one for one in mentions if one.count is not None), None)
    counted = counted or next((one for one in mentions if one.told), None)
    if counted is None or any(one.gpu.name != counted.gpu.name for one in mentions):
        return None
    numbers = {one.count for one in mentions if one.count is not None}
    per_node = counted.count if len(numbers) == 1 and (counted.count or 0) <= _MOST_OF_ONE_NODE else None
    place = Location(source=source, line=counted.line)
    return WrittenCard(name=counted.gpu.name, per_node=per_node, place=place)


def _comments(text: str, *, by_memory: bool = False) -> Iterator[_Line]:
    """The comments that have a line of their own."""
    for number, line in enumerate(text.splitlines(), start=1):
        comment = _COMMENT.match(line)
        if comment is not None:
            yield _Line(number, comment[1], _DOUBT.search(comment[1]) is None, by_memory)


def _names(text: str) -> Iterator[_Line]:
    """The names of runs that count their cards."""
    for number, line in enumerate(text.splitlines(), start=1):
        name = _NAME.match(line)
        if name is not None:
            yield _Line(number, name[1], True, by_variable=not name["n"].isdecimal())


def _prose(text: str) -> Iterator[_Line]:
    """The sentences of a README; those of tables and of code only speak against a card."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            fenced = not fenced
            continue
        line = _LINK.sub("] ", line)
        row = line.lstrip().startswith("|") and _OF_HARDWARE.match(line) is None
        told = not fenced and not row and not line.startswith(("    ", "\t"))
        for part in _SENTENCE.split(line):
            yield _Line(number, part, told and _DOUBT.search(part) is None, by_memory=True)


def _mentions(lines: Iterable[_Line]) -> Iterator[_Mention]:
    """Every card that lines name, with its number where that counts."""
    for line in lines:
        text = _VARIABLE.sub(" ", line.text)
        text = _TIMES_BEHIND.sub(r" x\1 ", _TIMES.sub(r" \1x ", text))
        words = _WORD.findall(_MEMORY.sub(r"\1GB", text))
        place = 0
        while place < len(words):
            gpu, taken = _card_at(words[place : place + _LONGEST_NAME + 1], words[:place])
            if gpu is not None:
                behind = words[place + taken : place + taken + 2]
                count = _count(words[:place], words[place : place + taken], behind) if line.counts else None
                own = words[place : place + taken + 1]
                told = line.by_variable or (line.by_memory and any(map(_MEMORY.search, own)))
                told = told and line.counts and _ANY.search(line.text) is None
                yield _Mention(gpu, count, line.number, told)
            place += taken


def _card_at(words: list[str], before: list[str]) -> tuple[Gpu | None, int]:
    """The card whose name begins a list of words, and how many of them it takes: the longest name.

    Args:
        words: from the first of the name on.
        before: the words in front of it, of which the last may be its memory.
    """
    if not _MODEL.fullmatch(words[0]):
        return None, 1
    for taken in range(min(_LONGEST_NAME, len(words)), 0, -1):
        name = "-".join(words[:taken])
        gpu = profile_named(name) or profile_named(name.removesuffix("s"))
        if gpu is None:
            continue
        behind = words[taken] if taken < len(words) else ""
        memory = _MEMORY.fullmatch(behind) or (_MEMORY.fullmatch(before[-1]) if before else None)
        if memory is not None:
            gpu = _with_memory(gpu, name, int(memory[1]))
        return (gpu if behind.lower() not in _OTHER_CARD else None), taken
    return None, 1


def _with_memory(gpu: Gpu, name: str, gib: int) -> Gpu | None:
    """The card of a name that has so much memory, give or take what makers round."""
    if abs(gib * GIB - gpu.memory_bytes) <= _LIKE * gpu.memory_bytes:
        return gpu
    return profile_named(f"{name}-{gib}GB") or profile_named(f"{name}-{gib + 1}GB")


def _count(before: list[str], card: list[str], behind: list[str]) -> int | None:
    """The number of a card, with its maker or memory between them or not.

    It is ``8x``, ``8`` of several GPUs, or a word in front of it, or ``x8`` behind it.

    Args:
        before: the words in front of the card.
        card: its own.
        behind: the next two.
    """
    after = next((word for word in behind if not _MEMORY.fullmatch(word)), "")
    times = _BEHIND.fullmatch(after)
    if times is not None:
        return int(times[1]) or None
    named = [word for word in before if word.lower() not in _MAKERS and not _MEMORY.fullmatch(word)]
    last = named[-1].lower() if named else ""
    last = last.removeprefix("x") if _BEHIND.fullmatch(last) else last  # ``8 nodes x 8 H100 GPUs``
    words = {word.lower() for word in (*card, *behind)}
    if last in _NUMBERS or (last in _ONE and _CALLED & words):
        return (_NUMBERS | _ONE)[last]
    number = last[:-1] if last.endswith("x") else last if _SEVERAL & words else ""
    return int(number) if number.isdecimal() and len(number) <= _DIGITS and int(number) else None
