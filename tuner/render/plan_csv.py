"""The trade-off of a plan as CSV: a row for each number and card, with names of columns for a program."""

import csv
import io

from tuner.consultation.planning import PlanAnswer
from tuner.plan.trade_off import TradePoint
from tuner.render.words import pasteable

_COLUMNS = (
    *(
        "card",
        "gpus",
        "gpus_per_node",
        "nodes",
        "placement",
        "fits",
        "seconds",
        "low_s",
        "high_s",
        "gpu_hours",
        "price",
    ),
    *("unbeaten", "unbeaten_by_price", "peak_bytes", "capacity_bytes", "overrides"),
)


def plan_csv(answer: PlanAnswer) -> str:
    """What was planned, in the order of the table over numbers and cards; then the placements that fit."""
    text = io.StringIO()
    table = csv.DictWriter(text, _COLUMNS, lineterminator="\n", restval="")
    table.writeheader()
    points = {id(point.setting): point for point in answer.trade_off}
    lines = [(row.cluster, points.get(id(row.plan.best)), row.plan.best is not None) for row in answer.rows]
    lines += [(point.cluster, point, True) for point in answer.trade_off if point.placement]
    for cluster, point, fits in lines:
        table.writerow(
            {
                "card": cluster.gpu.name,
                "gpus": cluster.gpus,
                "gpus_per_node": cluster.gpus_per_node,
                "nodes": cluster.nodes,
                "fits": _truth(fits),
                **({} if point is None else _figures(point)),
            }
        )
    return text.getvalue()


def _figures(point: TradePoint) -> dict[str, object]:
    """Numbers as they are, and overrides as words of a shell."""
    estimate = point.setting.estimate
    return {
        "placement": point.placement,
        "seconds": point.step.seconds,
        "low_s": point.step.low_s,
        "high_s": point.step.high_s,
        "gpu_hours": point.gpu_hours,
        "price": "" if point.price is None else point.price,
        "unbeaten": _truth(point.unbeaten),
        "unbeaten_by_price": "" if point.unbeaten_by_price is None else _truth(point.unbeaten_by_price),
        "peak_bytes": estimate.worst.peak_bytes,
        "capacity_bytes": estimate.capacity_bytes,
        "overrides": " ".join(map(pasteable, (*point.setting.overrides, *_options(point)))),
    }


def _options(point: TradePoint) -> tuple[str, ...]:
    """Options of the program that choose the configuration, where a setting needs another."""
    needs = point.setting.needs
    return () if needs is None else needs.options


def _truth(value: bool) -> str:
    return "true" if value else "false"
