"""Byte strings that are too many to hold: a temporary file has them, as far as there is room for one."""

from array import array
from typing import IO

from tuner.units import MIB

_HELD_BYTES = MIB  # written at once: so much is held, and so much never needs a file


class Spool:
    """Byte strings by their numbers, few of them in memory and the rest in a file without a name.

    The file is gone when the process is, however that ends. Where none can be written, as there is no folder
    for it or the disk is full, what is not in it yet stays in memory.

    Args:
        count: how many there will be.
    """

    def __init__(self, count: int) -> None:
        self._starts = array("q", bytes(8 * count))
        self._sizes = array("q", bytes(8 * count))
        self._held: dict[int, bytes] = {}
        self._held_bytes = 0
        self._file: IO[bytes] | None = None
        self._end = 0  # bytes of the file that are used
        self._refused = False  # the disk has, once

    def put(self, number: int, data: bytes) -> None:
        """Keep one of them; each number once."""
        self._held[number] = data
        self._held_bytes += len(data)
        if self._held_bytes >= _HELD_BYTES and not self._refused:
            self._write()

    def get(self, number: int) -> bytes:
        """The bytes that were put at a place."""
        if number in self._held:
            return self._held[number]
        assert self._file is not None
        self._file.seek(self._starts[number])
        return self._file.read(self._sizes[number])

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self) -> None:
        """Move what is held into the file."""
        data = b"".join(self._held.values())
        try:
            if self._file is None:
                from tempfile import TemporaryFile

                self._file = TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as this can be read
            self._file.seek(self._end)
            self._refused = self._file.write(data) != len(data)
        except OSError:
            self._refused = True
        if self._refused:
            return
        for number, held in self._held.items():
            self._starts[number], self._sizes[number] = self._end, len(held)
            self._end += len(held)
        self._held, self._held_bytes = {}, 0
