"""Seconds of a step against its GPU-hours, for the numbers and cards of a plan."""

from collections.abc import Mapping, Sequence

from figures import Drawing
from run_command import numbers_of_plan
from tuner.render.trade_off_picture import Point, TradeOffPicture, trade_off_picture
from tuner.rules.wording import around, duration

WORDS = {
    "across": "seconds of a step",
    "upwards": "GPU-hours of a step",
    "unbeaten": "beaten by none",
    "beaten": "beaten in both at once",
    "where": "GPUs",
}
#: As the page shows it as a table, so that it is planned once.
_JOB = ("docs/examples/qwen2.5-7b-grpo.yaml", "trainer.n_gpus_per_node=8")
_CLUSTERS = ("--gpu", "h100-sxm,h200-sxm", "--nodes", "1-2")
_SAID = (
    *("--price", "h100-sxm=2.5/h", "--price", "h200-sxm=3.2/h"),
    *("--data-rows", "7473", "--verl-version", "0.7.1"),
)


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A point for each number and card; arguments are those of ``tuner plan``, else of the guide's plan."""
    command = " ".join(("tuner plan", *(arguments or (*_JOB, *_CLUSTERS, *_SAID))))
    points = tuple(
        Point(
            label=f"{point['gpus']} x {point['card']}",
            card=point["card"],
            seconds=point["step"]["seconds"],
            low_s=point["step"]["low_s"],
            high_s=point["step"]["high_s"],
            cost=point["gpu_hours"],
            unbeaten=point["unbeaten"],
        )
        for point in numbers_of_plan(command)["trade_off"]
    )
    cards = tuple(sorted({point.card for point in points}))
    return Drawing(
        svg=trade_off_picture(TradeOffPicture(points=points, cards=cards, labels=words)),
        header=(words["where"], words["across"], words["upwards"], ""),
        rows=tuple(
            (
                point.label,
                around(duration(point.seconds), duration(point.low_s), duration(point.high_s)),
                f"{point.cost:.2g}",
                words["unbeaten"] if point.unbeaten else words["beaten"],
            )
            for point in points
        ),
    )
