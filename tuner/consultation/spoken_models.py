"""The model that a README speaks of more than of any other, for a launch whose own model is not to be had."""

import re
from collections import Counter
from pathlib import Path

from msgspec import Struct

from tuner.errors import InputError
from tuner.files import is_there, read_bytes, repository_folders
from tuner.models import named_within
from tuner.units import KIB

_READMES = ("README.md", "README.rst", "README.txt", "README")
_MOST_BYTES = 256 * KIB  # of a README
_WORD = re.compile(r"[A-Za-z][\w./-]*\d[\w.-]*[A-Za-z]\w*")  # with a size: Qwen/Qwen2.5-7B-Instruct
_MOST_WORDS = 400  # different ones
_TIMES = 2  # as often as the next one


class SpokenModel(Struct, frozen=True):
    """A model and the line that speaks of it first."""

    name: str
    where: str  # README.md:12


def spoken_model(folder: Path, others: re.Pattern[str]) -> SpokenModel | None:
    """The model that the nearest README names most; None where another is named nearly as often.

    Args:
        folder: of the launch.
        others: what a line speaks of whose model is not the one that is trained.
    """
    for above in repository_folders(folder.absolute()):
        file = next((file for name in _READMES if is_there(file := above / name, Path.is_file)), None)
        if file is None:
            continue
        try:
            text = read_bytes(file, most=_MOST_BYTES).decode("utf-8", "replace")
        except InputError:  # larger than anybody writes one
            return None
        model = _most_named(text, file.name, others)
        if model is not None:
            return model
    return None


def _most_named(text: str, name: str, others: re.Pattern[str]) -> SpokenModel | None:
    counts, first, known = Counter[str](), dict[str, int](), dict[str, str | None]()
    for number, line in enumerate(text.splitlines(), start=1):
        for word in _WORD.findall(line) if others.search(line) is None else ():
            if word not in known and len(known) < _MOST_WORDS:
                known[word] = named_within(word.rpartition("/")[2])
            model = known.get(word)
            if model is not None:
                counts[model] += 1
                first.setdefault(model, number)
    ranked = counts.most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] < _TIMES * ranked[1][1]):
        return None
    return SpokenModel(ranked[0][0], f"{name}:{first[ranked[0][0]]}")
