"""Measured rates at which a decoding step reads its KV cache and its weights, by their sizes.

The seconds of one operation come close to a straight line in its bytes: what starting it takes, and what the
memory takes. So they are read along straight lines between the sizes of a table.
"""

from bisect import bisect

from msgspec import Struct


class CacheReads(Struct, frozen=True, kw_only=True):
    """Bytes per second at which attention reads the cache of one layer, a query for each sequence."""

    contexts: tuple[float, ...]  # tokens of a sequence, in the mean
    token_bytes: tuple[float, ...]  # of keys and values of one token of every sequence
    bytes_per_s: tuple[tuple[float, ...], ...]  # a row for each context, a column for each number of bytes

    def plane(self) -> "Plane":
        """Seconds of one layer by context and bytes of a token; no context takes the least of them all."""
        seconds = tuple(
            tuple(context * size / rate for size, rate in zip(self.token_bytes, rates, strict=True))
            for context, rates in zip(self.contexts, self.bytes_per_s, strict=True)
        )
        least = (min(map(min, seconds)),) * len(self.token_bytes)
        return Plane(rows=(0.0, *self.contexts), columns=self.token_bytes, seconds=(least, *seconds))


class WeightReads(Struct, frozen=True, kw_only=True):
    """Bytes per second at which a matrix is read that few rows are multiplied with."""

    bytes: tuple[float, ...]  # of the matrix
    rows: tuple[float, ...]
    bytes_per_s: tuple[tuple[float, ...], ...]  # a row for each number of bytes, a column for each of rows

    def plane(self) -> "Plane":
        """Seconds of one matrix by its bytes and the rows."""
        seconds = tuple(
            tuple(size / rate for rate in rates)
            for size, rates in zip(self.bytes, self.bytes_per_s, strict=True)
        )
        return Plane(rows=self.bytes, columns=self.rows, seconds=seconds)


class Plane(Struct, frozen=True, kw_only=True):
    """Seconds by two sizes, along straight lines between those of a table and beyond its ends.

    Fewer columns than the table has take as long as its fewest.
    """

    rows: tuple[float, ...]  # at least two, each more than the one before
    columns: tuple[float, ...]  # the same
    seconds: tuple[tuple[float, ...], ...]  # a tuple for each row, a number for each column

    def at(self, row: float, column: float) -> float:
        """The seconds at these sizes; never below none."""
        first = bisect(self.rows, row, 1, len(self.rows) - 1)
        second = bisect(self.columns, column, 1, len(self.columns) - 1)
        left, right = self.columns[second - 1], self.columns[second]
        along = (column - left) / (right - left) if column > left else 0.0
        low, high = self.seconds[first - 1], self.seconds[first]
        fewer = low[second - 1] + (low[second] - low[second - 1]) * along
        more = high[second - 1] + (high[second] - high[second - 1]) * along
        above, below = self.rows[first - 1], self.rows[first]
        seconds = fewer + (more - fewer) * (row - above) / (below - above)
        return seconds if seconds > 0 else 0.0

    def scaled(self, *, rows: float = 1.0, columns: float = 1.0, seconds: float = 1.0) -> "Plane":
        """The plane with its sizes and its seconds multiplied."""
        return Plane(
            rows=tuple(rows * size for size in self.rows),
            columns=tuple(columns * size for size in self.columns),
            seconds=tuple(tuple(seconds * one for one in row) for row in self.seconds),
        )
