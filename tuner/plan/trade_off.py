"""Seconds of a step against what they cost: the numbers and cards that no other one beats in both at once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from tuner.plan.answer import PlannedSetting
from tuner.plan.capacity import CapacityRow
from tuner.timing import Interval


class TradePoint(Struct, frozen=True, kw_only=True):
    """The fastest setting on one number of one card, and whether another one is faster and cheaper."""

    setting: PlannedSetting
    price: Annotated[float | None, Meta(description="of a step; null where nobody says what an hour costs")]
    unbeaten: Annotated[
        bool, Meta(description="no other one is better in seconds or GPU-hours and no worse in the other")
    ] = False
    unbeaten_by_price: Annotated[
        bool | None, Meta(description="the same of seconds and price; null where no price is given")
    ] = None

    @property
    def card(self) -> str:
        """The name of the card."""
        return self.setting.workload.cluster.gpu.name

    @property
    def gpus(self) -> Annotated[int, Meta(description="of all nodes; those beside them count in GPU-hours")]:
        """GPUs of all nodes."""
        return self.setting.workload.cluster.gpus

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a node."""
        return self.setting.workload.cluster.gpus_per_node

    @property
    def nodes(self) -> int:
        """Nodes of the trainer."""
        return self.setting.workload.cluster.nodes

    @property
    def step(self) -> Annotated[Interval, Meta(description="seconds of a step")]:
        """Seconds of a step, with their interval."""
        return self.setting.step

    @property
    def gpu_hours(self) -> Annotated[float, Meta(description="of a step")]:
        """GPU-hours of a step."""
        return self.setting.gpu_hours


def trade_off(rows: Iterable[CapacityRow], prices: Mapping[str, float]) -> tuple[TradePoint, ...]:
    """What there is to choose from, the fastest first.

    On one number of one card the fastest setting takes the fewest GPU-hours as well, so that a row of the
    table over numbers and cards is one point.

    Args:
        rows: of that table.
        prices: of a GPU-hour, by the card's name.
    """
    points = []
    for row in rows:
        price = prices.get(row.cluster.gpu.name)
        if row.best is not None and row.best.time.seconds > 0:
            cost = None if price is None else price * row.best.gpu_hours
            points.append(TradePoint(setting=row.best, price=cost))
    points.sort(key=_seconds)
    hours = unbeaten([(_seconds(point), point.gpu_hours) for point in points])
    priced = [point for point in points if point.price is not None]
    by_price = unbeaten([(_seconds(point), point.price or 0.0) for point in priced])
    cheap = {id(point): kept for point, kept in zip(priced, by_price, strict=True)}
    return tuple(
        TradePoint(
            setting=point.setting, price=point.price, unbeaten=kept, unbeaten_by_price=cheap.get(id(point))
        )
        for point, kept in zip(points, hours, strict=True)
    )


def _seconds(point: TradePoint) -> float:
    return point.setting.time.seconds


def unbeaten(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether a point is beaten by none: no other one is as small in both numbers and smaller in one."""

    def beats(other: tuple[float, float], one: tuple[float, float]) -> bool:
        return other != one and other[0] <= one[0] and other[1] <= one[1]

    return [not any(beats(other, one) for other in points) for one in points]
