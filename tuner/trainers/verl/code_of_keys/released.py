"""Each function that keys act through as the bundled releases have it: digests, and the words that count.

``digests.txt`` has a line for each: its name, its digests and, behind a bar, its words, all of them with the
releases as the bits of a hexadecimal number, the oldest bundled one the lowest.

Source: the modules of verl's wheels, see :mod:`tuner.trainers.verl.code_of_keys.build`.
"""

from functools import cache
from pathlib import Path

from msgspec import Struct

from tuner.trainers.verl.releases import BUNDLED

FILE = "digests.txt"


class ReleasedFunction(Struct, frozen=True, kw_only=True):
    """One function in the releases that have it."""

    digests: dict[str, int]
    words: dict[str, int]

    @property
    def releases(self) -> int:
        """The bits of those that have it."""
        bits = 0
        for of_digest in self.digests.values():
            bits |= of_digest
        return bits

    def is_in(self, version: str) -> bool:
        """Whether a release has it."""
        return bool(self.releases & _bit(version))

    def is_around(self, version: str) -> bool:
        """Whether a release has it, and its neighbours: a copy may be of a time between them.

        Before the oldest and after the newest nothing is known.
        """
        known = version not in (BUNDLED[0], BUNDLED[-1])
        return known and not _around(version) & ~self.releases

    def keeps(self, words: str, version: str) -> bool:
        """Whether it has one of the words ``a|b`` in a release and its neighbours, as far as they have it."""
        having = 0
        for word in words.split("|"):
            having |= self.words.get(word, 0)
        return not _around(version) & self.releases & ~having

    def may_have(self, word: str, version: str) -> bool:
        """Whether it has a word in a release or one of its neighbours."""
        return bool(self.words.get(word, 0) & _around(version))


def released() -> dict[str, ReleasedFunction]:
    """The functions by their keys, see :class:`tuner.trainers.verl.code_of_keys.rows.TrainerFunction`."""
    return _read()


@cache
def _read() -> dict[str, ReleasedFunction]:
    text = Path(__file__).with_name(FILE).read_text(encoding="utf-8")
    functions = {}
    for line in text.splitlines():
        digests, _bar, words = line.partition("|")
        name, *rest = digests.split()
        functions[name] = ReleasedFunction(digests=_bits(rest), words=_bits(words.split()))
    return functions


def _bits(pairs: list[str]) -> dict[str, int]:
    return {name: int(bits, 16) for name, _is, bits in (pair.partition("=") for pair in pairs)}


def _around(version: str) -> int:
    bit = _bit(version)
    return (bit | bit << 1 | bit >> 1) & ((1 << len(BUNDLED)) - 1)


def _bit(version: str) -> int:
    return 1 << BUNDLED.index(version) if version in BUNDLED else 0
