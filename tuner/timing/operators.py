"""Measured shares of a card's peak that operators reach, by their shapes.

A table belongs to one card, ``profiles/operators/<card>.json``, written by ``python -m measure.operators``.
A card without a table takes that of :data:`REFERENCE`, carried over by :mod:`tuner.timing.cards`.
"""

from bisect import bisect_right
from functools import lru_cache
from math import exp, log

import msgspec
from msgspec import Struct

from tuner import shipped
from tuner.hardware import Gpu
from tuner.timing.cards import carried_share

#: The card whose shares stand in for those of a card without a table.
REFERENCE = "h100-sxm"


class Shares(Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of the dense peak in bfloat16, by two sizes of an operation; both grow along their axis."""

    sizes: tuple[float, ...]  # hidden size of a product, or head size of an attention
    tokens: tuple[float, ...]  # rows of a product, or length of a sequence
    forward: tuple[tuple[float, ...], ...]  # a row for each size, a column for each number of tokens
    backward: tuple[tuple[float, ...], ...]

    def at(self, size: float, tokens: float, *, backward: bool) -> float:
        """The share at these sizes: interpolated between logarithms, held at the edges of the table."""
        rows = self.backward if backward else self.forward
        low, high, between = _neighbours(self.sizes, size)
        left, right, along = _neighbours(self.tokens, tokens)
        ends = (
            (1 - along) * log(rows[index][left]) + along * log(rows[index][right]) for index in (low, high)
        )
        first, second = ends
        return exp((1 - between) * first + between * second)


class Operators(Struct, frozen=True):
    """What was measured on one card. Other keys of the file say how, when and with which versions."""

    gpu: str
    dense_bf16_flop_per_s: float  # the card's peak and bandwidth, of its data sheet
    memory_bytes_per_s: float
    products: Shares
    attention: Shares

    def on(self, gpu: Gpu, share: float) -> float:
        """A share of this table on a card: as it is on its own, carried over to another."""
        if gpu.name == self.gpu:
            return share
        return carried_share(
            share,
            flop_per_s=self.dense_bf16_flop_per_s,
            memory_bytes_per_s=self.memory_bytes_per_s,
            gpu=gpu,
        )


@lru_cache(maxsize=8)
def operators_of(gpu: str) -> Operators:
    """The table of a card, or the reference's.

    Args:
        gpu: name of the card's profile.

    Raises:
        InputError: the installation lacks its profiles.
        msgspec.ValidationError: a bundled table is not one.
    """
    file = shipped.profiles() / "operators" / f"{table_card(gpu)}.json"
    return msgspec.json.decode(file.read_bytes(), type=Operators)


@lru_cache(maxsize=64)
def table_card(gpu: str) -> str:
    """The card whose table a card takes its shares from: itself, or the reference.

    Args:
        gpu: name of the card's profile.
    """
    tables = {file.stem for file in (shipped.profiles() / "operators").glob("*.json")}
    return gpu if gpu in tables else REFERENCE


@lru_cache(maxsize=4096)
def product_share(gpu: Gpu, *, width: float, rows: float, backward: bool) -> float:
    """Share of the peak that products of ``rows`` tokens reach in layers whose narrower side is ``width``."""
    table = operators_of(gpu.name)
    return table.on(gpu, table.products.at(width, rows, backward=backward))


@lru_cache(maxsize=4096)
def attention_share(gpu: Gpu, *, head_dim: float, tokens: float, backward: bool) -> float:
    """Share of the peak that causal attention reaches on sequences of so many tokens."""
    table = operators_of(gpu.name)
    return table.on(gpu, table.attention.at(head_dim, tokens, backward=backward))


def _neighbours(axis: tuple[float, ...], value: float) -> tuple[int, int, float]:
    """Places on both sides of a value, and how far it lies between them, in logarithms."""
    inside = min(max(value, axis[0]), axis[-1])
    high = min(max(1, bisect_right(axis, inside)), len(axis) - 1)
    low = high - 1
    return low, high, log(inside / axis[low]) / log(axis[high] / axis[low])
