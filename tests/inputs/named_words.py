"""Writes which keys the code of verl wheels names: ``python -m tests.inputs.named_words WHEEL...``.

A key that no file of a release names is not read by it, whatever its configuration holds. Only the last part
of a key is looked for, by the words of all Python files, so that nothing of this package's search is in it.
"""

import json
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.trainers.verl.keys import keys_of
from tuner.trainers.verl.programs import Program

DATA = Path(__file__).parents[1] / "data" / "verl-named-words.json"


def words_of_tables() -> set[str]:
    """The last parts of all keys of the tables."""
    return {
        own.key.rpartition(".")[2]
        for program in Program
        for spellings in keys_of(program).values()
        for own in spellings
    }


def named(wheel: Path, words: set[str]) -> list[str]:
    """Those of some words that the Python files of a wheel have."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted(words.intersection(_words(archive)))


def _words(archive: zipfile.ZipFile) -> Iterator[str]:
    for name in archive.namelist():
        if name.startswith("verl/") and name.endswith(".py"):
            yield from re.findall(r"\w+", archive.read(name).decode())


def main(wheels: Sequence[str]) -> None:
    """Command line: all wheels, since the words are those of the tables as they stand."""
    words = words_of_tables()
    content = {"words": sorted(words), "named": {}}
    for wheel in map(Path, wheels):
        content["named"][wheel.name.split("-")[1]] = named(wheel, words)
    DATA.write_text(json.dumps(content, indent=0) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
