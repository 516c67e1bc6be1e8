"""Seconds of a step against what they cost: the numbers, cards and placements that none beats in both."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.hardware import Cluster
from tuner.plan.answer import PlannedSetting
from tuner.plan.capacity import CapacityRow
from tuner.plan.pareto import unbeaten
from tuner.timing import Interval


class TradePoint(Struct, frozen=True, kw_only=True):
    """The fastest setting on one number of one card, and whether another one is faster and cheaper."""

    setting: PlannedSetting
    cluster: Cluster
    placement: Annotated[
        str, Meta(description="where it generates; empty: where the job does, as all that is not varied")
    ] = ""
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
        return self.cluster.gpu.name

    @property
    def gpus(self) -> Annotated[int, Meta(description="of all nodes; those beside them count in GPU-hours")]:
        """GPUs of all nodes."""
        return self.cluster.gpus

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a node."""
        return self.cluster.gpus_per_node

    @property
    def nodes(self) -> int:
        """Nodes of the trainer."""
        return self.cluster.nodes

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
    table over numbers and cards is one point, and each placement of all GPUs of a cluster another one.

    Args:
        rows: of that table.
        prices: of a GPU-hour, by the card's name.
    """
    points = [
        TradePoint(
            setting=setting,
            cluster=cluster,
            placement=placement,
            price=None if (price := prices.get(cluster.gpu.name)) is None else price * setting.gpu_hours,
        )
        for placement, cluster, setting in _settings(rows)
        if setting.time.seconds > 0
    ]
    points.sort(key=_seconds)
    hours = unbeaten([(_seconds(point), point.gpu_hours) for point in points])
    priced = [point for point in points if point.price is not None]
    by_price = unbeaten([(_seconds(point), point.price or 0.0) for point in priced])
    cheap = {id(point): kept for point, kept in zip(priced, by_price, strict=True)}
    return tuple(
        replace(point, unbeaten=kept, unbeaten_by_price=cheap.get(id(point)))
        for point, kept in zip(points, hours, strict=True)
    )


def _settings(rows: Iterable[CapacityRow]) -> Iterator[tuple[str, Cluster, PlannedSetting]]:
    """Where each generates, on which GPUs; first the job as it is, then what was planned elsewhere."""
    given = list(rows)
    for row in given:
        if row.plan.best is not None:
            yield "", row.cluster, row.plan.best
    for row in given:
        yield from ((one.placement, row.cluster, one.setting) for one in row.elsewhere)


def _seconds(point: TradePoint) -> float:
    return point.setting.time.seconds
