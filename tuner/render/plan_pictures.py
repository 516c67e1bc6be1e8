"""What the pictures of a plan show: seconds against GPU-hours, and against prices where they are given."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from tuner.consultation.planning import PlanAnswer
from tuner.language import _, chosen
from tuner.plan.trade_off import TradePoint
from tuner.render.terminal import plain
from tuner.render.trade_off_picture import Point, TradeOffPicture, pictures_alone


class TradeOffView(Struct, frozen=True, kw_only=True):
    """One picture with its name."""

    picture: TradeOffPicture
    title: str
    caption: str


def plan_title(answer: PlanAnswer) -> str:
    """What the plan is of: ``"Plan of Qwen2.5-7B-Instruct, verl 0.9.1"``."""
    workload = answer.job.reading.workload
    text = _("Plan of {model}, {release}")
    return text.format(model=plain(workload.model.name), release=workload.release)


def trade_off_views(answer: PlanAnswer) -> Iterator[TradeOffView]:
    """The pictures that there are points for."""
    points = answer.trade_off
    cards = tuple(dict.fromkeys(plain(row.cluster.gpu.name) for row in answer.rows))
    if points:
        yield _view(
            points,
            cards,
            title=_("Seconds against GPU-hours"),
            upwards=_("GPU-hours of a step"),
            cost=lambda point: point.gpu_hours,
            kept=lambda point: point.unbeaten,
        )
    priced = tuple(point for point in points if point.price is not None)
    if priced:
        yield _view(
            priced,
            cards,
            title=_("Seconds against the price"),
            upwards=_("price of a step"),
            cost=lambda point: point.price or 0.0,
            kept=lambda point: bool(point.unbeaten_by_price),
        )


def _view(
    points: tuple[TradePoint, ...],
    cards: tuple[str, ...],
    *,
    title: str,
    upwards: str,
    cost: Callable[[TradePoint], float],
    kept: Callable[[TradePoint], bool],
) -> TradeOffView:
    drawn = tuple(
        Point(
            label=" ".join(filter(None, (f"{point.gpus} x {plain(point.card)}", point.placement))),
            card=plain(point.card),
            seconds=point.step.seconds,
            low_s=point.step.low_s,
            high_s=point.step.high_s,
            cost=cost(point),
            unbeaten=kept(point),
        )
        for point in points
    )
    return TradeOffView(
        picture=TradeOffPicture(points=drawn, cards=cards, labels=picture_words(upwards)),
        title=title,
        caption=_("{title}. Bars: between which ends the seconds may lie.").format(title=title),
    )


def picture_words(upwards: str) -> dict[str, str]:
    """The texts within a picture."""
    return {
        "upwards": upwards,
        "across": _("seconds of a step"),
        "unbeaten": _("beaten by none"),
        "beaten": _("beaten in both at once"),
    }


def plan_svg(answer: PlanAnswer) -> str:
    """The pictures as one file."""
    views = list(trade_off_views(answer))
    title = plan_title(answer) if views else _("{plan}: it fits on none").format(plan=plan_title(answer))
    language = chosen().replace("_", "-")
    return pictures_alone([view.picture for view in views], title=title, language=language)
