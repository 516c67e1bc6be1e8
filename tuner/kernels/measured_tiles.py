"""Kernels and tile of a pass: what was fastest on a card like this, by ``measured_tiles.json``, never timed.

T: rows (tokens). H: hidden size. V: vocabulary entries.

Cards are told apart by what they are, not by their names: the compute capability must be the same; the most
similar number of processors, cache and memory bandwidth decides. So do T, H and V for the shape. The file is
written by ``python -m tuner.kernels.benchmark.tiles``. A card that is unlike every record takes the default
of its device: which tile is fastest turns on how its memory compares with its arithmetic.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, lru_cache
from math import dist, log
from pathlib import Path as FilePath
from typing import Any

import torch
from torch import Tensor

from tuner.kernels import tiles
from tuner.kernels.tiles import Path, Plan, Tile, TileWork

FILE = FilePath(__file__).with_name("measured_tiles.json")
Sizes = tuple[int, int, int]  # T, H, V
_CACHED_CHOICES = 4096  # micro-batches come in many sizes, and each asks for three passes
_ALIKE = log(1.25)  # what a card may differ by from a record of it: an H200 is no H100
_BITS_PER_BYTE = 8
_EDGES = 2  # of the memory's clock on which data are sent


@dataclass(frozen=True, kw_only=True)
class TunedCard:
    """What of a card decides which tile is fastest."""

    capability: tuple[int, int]
    processors: int
    l2_bytes: int
    bytes_per_second: int  # of its memory, as its clock and bus width have it

    def away_from(self, other: "TunedCard") -> float:
        """How different two cards of one capability are: the distance of the logarithms."""
        figures, other_figures = (
            [log(card.processors), log(card.l2_bytes), log(card.bytes_per_second)] for card in (self, other)
        )
        return dist(figures, other_figures)


@cache
def card_of(device: torch.device) -> TunedCard:
    """The card as its driver describes it."""
    properties = torch.cuda.get_device_properties(device)
    clock_khz, bus_bits = (getattr(properties, name, 0) for name in ("memory_clock_rate", "memory_bus_width"))
    return TunedCard(
        capability=(properties.major, properties.minor),
        processors=properties.multi_processor_count,
        l2_bytes=max(properties.L2_cache_size, 1),
        bytes_per_second=max(_EDGES * clock_khz * 1000 * bus_bits // _BITS_PER_BYTE, 1),
    )


@cache
def records() -> list[dict[str, Any]]:
    """The measurements of all cards."""
    cards: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cards"]
    return cards


def card_in(record: dict[str, Any]) -> TunedCard:
    """The card that a record is of."""
    major, minor = record["capability"]
    return TunedCard(
        capability=(major, minor),
        processors=record["processors"],
        l2_bytes=record["l2_bytes"],
        bytes_per_second=record["bytes_per_second"],
    )


@lru_cache(maxsize=_CACHED_CHOICES)
def fastest(card: TunedCard, work: TileWork, sizes: Sizes, allowed: Collection[Path]) -> Plan | None:
    """The fastest plan where the most similar card and shape were measured; None for a card unlike any.

    Args:
        card: where it is to run.
        work: of the pass.
        sizes: rows, hidden size and vocabulary.
        allowed: paths that can be taken; a tuple, so that it can be a key.
    """
    similar = [
        record
        for record in records()
        if card_in(record).capability == card.capability and card_in(record).away_from(card) <= _ALIKE
    ]
    if not similar:
        return None
    record = min(similar, key=lambda record: card_in(record).away_from(card))
    wanted = [log(max(size, 1)) for size in sizes]
    distances_and_plans = [
        (dist(wanted, [log(size) for size in shape["sizes"]]), shape["passes"][work.value])
        for shape in record["shapes"]
        if work.value in shape["passes"]
    ]
    if not distances_and_plans:
        return None
    candidates = [
        candidate
        for candidate in min(distances_and_plans, key=lambda pair: pair[0])[1]
        if Path(candidate["path"]) in allowed
    ]
    if not candidates:
        return None
    best = min(candidates, key=lambda candidate: float(candidate["milliseconds"]))
    return Plan(path=Path(best["path"]), tile=Tile.of(best["tile"], card.processors))


def choose_plan(work: TileWork, hidden_TH: Tensor, weight_VH: Tensor) -> Plan:
    """Path and tile of a pass over these matrices, whose last dimension is contiguous.

    A choice from a table: one that a timing makes while it runs would change the order of the sums, and
    the bits with it.
    """
    paths = tiles.possible_paths(hidden_TH, weight_VH)
    if hidden_TH.is_cuda and hidden_TH.element_size() == 2 and Path.REFERENCE not in paths:
        sizes = (hidden_TH.shape[0], hidden_TH.shape[1], weight_VH.shape[0])
        card = card_of(hidden_TH.device)
        if plan := fastest(card, work, sizes, paths):
            return plan
    return Plan(path=paths[0], tile=tiles.default_tile(paths[0], hidden_TH))
