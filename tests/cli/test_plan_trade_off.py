"""The trade-off of a plan: seconds against GPU-hours and prices, as tables, CSV, SVG and HTML."""

import csv
import io
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.runner import run
from tests.cli.test_html import Page
from tests.cli.test_plan import JOB
from tuner.plan.pareto import unbeaten
from tuner.render.axis_ticks import even_ticks, log_ticks
from tuner.render.trade_off_picture import Point, TradeOffPicture, trade_off_picture

pytestmark = pytest.mark.usefixtures("plans_are_kept")

GIVEN = ("/dev/null", "--model", "qwen2.5-0.5b", "--verl-version", "0.9.1", "--gpu", "h100-sxm,l40s")
SIZES = ("--gpus-per-node", "1,2", "--price", "h100-sxm=2.5/h", "--price", "l40s=0.9/h")
SVG = "{http://www.w3.org/2000/svg}"
WORDS = {"across": "seconds", "upwards": "hours", "unbeaten": "no", "beaten": "yes"}


@cache
def shown(form: str) -> str:
    result = run("plan", *GIVEN, *SIZES, "--output-format", form, "--", *JOB)
    assert result.code == 0, result.err
    return result.out


def points() -> list[dict[str, Any]]:
    answer: dict[str, Any] = json.loads(shown("json"))
    return list(answer["trade_off"])


def beaten(one: dict[str, Any], by: str) -> bool:
    """Whether another one is better in one number and no worse in the other."""
    mine = one["step"]["seconds"], one[by]
    others = [(other["step"]["seconds"], other[by]) for other in points()]
    return any(other != mine and other[0] <= mine[0] and other[1] <= mine[1] for other in others)


def test_every_number_and_card_is_a_point_and_those_that_none_beats_are_told() -> None:
    names = {(one["card"], one["gpus"]) for one in points()}
    assert names == {(card, gpus) for card in ("h100-sxm", "l40s") for gpus in (1, 2)}
    seconds = [one["step"]["seconds"] for one in points()]
    assert seconds == sorted(seconds)
    for one in points():
        assert one["unbeaten"] is not beaten(one, "gpu_hours")
        assert one["unbeaten_by_price"] is not beaten(one, "price")
    for kind in ("unbeaten", "unbeaten_by_price"):
        assert {one[kind] for one in points()} == {True, False}


def test_what_is_worse_in_both_is_beaten_and_what_is_alike_is_not() -> None:
    assert unbeaten([(1, 4), (2, 2), (2, 3), (3, 2), (4, 1), (4, 1)]) == [
        True,
        True,
        False,
        False,
        True,
        True,
    ]


def test_a_card_without_a_price_is_compared_by_hours_alone() -> None:
    result = run("plan", *GIVEN, *SIZES[:4], "--output-format", "json", "--", *JOB)
    for one in json.loads(result.out)["trade_off"]:
        assert (one["unbeaten_by_price"] is None) is (one["card"] == "l40s")


def test_the_tables_have_what_none_beats_from_the_cheapest_on() -> None:
    text = shown("text")
    for heading, kind in (
        ("Seconds against GPU-hours", "unbeaten"),
        ("Seconds against the price", "unbeaten_by_price"),
    ):
        section = text.partition(heading)[2].partition("\n\n")[0]
        rows = re.findall(r"^ +(h100-sxm|l40s) +(\d+) ", section, re.M)
        assert rows == [(one["card"], str(one["gpus"])) for one in reversed(points()) if one[kind]]


def test_the_text_fits_into_eighty_columns() -> None:
    text = shown("text")
    assert "The whole job on them" in text
    assert max(len(line) for line in text.splitlines() if "=" not in line) <= 80


def test_the_csv_has_a_row_for_each_number_and_card() -> None:
    rows = list(csv.DictReader(io.StringIO(shown("csv"))))
    by_name = {(row["card"], int(row["gpus"])): row for row in rows}
    assert len(by_name) == len(rows)
    for one in points():
        row = by_name.pop((one["card"], one["gpus"]))
        numbers = [float(row[name]) for name in ("seconds", "low_s", "high_s", "gpu_hours", "price")]
        step = one["step"]
        told = [step["seconds"], step["low_s"], step["high_s"], one["gpu_hours"], one["price"]]
        assert numbers == told
        assert row["unbeaten"] == str(one["unbeaten"]).lower()
        assert row["unbeaten_by_price"] == str(one["unbeaten_by_price"]).lower()
    assert all(row["fits"] == "false" and not row["seconds"] for row in by_name.values())


def test_placements_are_weighed_with_numbers_of_gpus() -> None:
    """What generates elsewhere takes all GPUs, and fewer may beat it where they do both."""
    given = ("/dev/null", "--model", "qwen2.5-0.5b", "--verl-version", "0.9.1", "--gpu", "2xh100-sxm")
    vary = ("--vary", "placement=one-step-off,separate")
    answer = json.loads(run("plan", *given, *vary, "-f", "json", "--", *JOB).out)
    made = {(one["gpus"], one["placement"]): one for one in answer["trade_off"]}
    assert set(made) == {(1, ""), (2, ""), (2, "one-step-off"), (2, "separate")}
    for one in answer["placements"]:
        point = made[2, one["placement"]]
        assert (point["step"]["seconds"], point["gpu_hours"]) == (
            one["setting"]["seconds"],
            one["setting"]["gpu_hours"],
        )
    pairs = {key: (one["step"]["seconds"], one["gpu_hours"]) for key, one in made.items()}
    for key, one in made.items():
        mine = pairs[key]
        others = [it for it in pairs.values() if it != mine and it[0] <= mine[0] and it[1] <= mine[1]]
        assert one["unbeaten"] is not bool(others)
    rows = list(csv.DictReader(io.StringIO(run("plan", *given, *vary, "-f", "csv", "--", *JOB).out)))
    assert [(int(row["gpus"]), row["placement"]) for row in rows[2:]] == [key for key in made if key[1]]


def texts(element: ElementTree.Element) -> list[str]:
    return [str(text.text) for text in element.iter(f"{SVG}text")]


def test_the_picture_names_every_point_and_needs_nothing() -> None:
    svg = shown("svg")
    root = ElementTree.fromstring(svg)
    names = [f"{one['gpus']} x {one['card']}" for one in points()]
    assert all(texts(root).count(name) == 2 for name in names)  # against hours, and against prices
    assert {"GPU-hours of a step", "price of a step", "seconds of a step"} <= set(texts(root))
    assert not re.search(r"<script|<image|href|url\(|@import|on\w+=", svg)


def test_the_picture_is_in_the_readers_language() -> None:
    one = (*GIVEN[:-1], "1xl40s", "--output-format", "svg")
    result = run("--lang", "zh", "plan", *one, "--", *JOB)
    assert ElementTree.fromstring(result.out).attrib["lang"].startswith("zh")


def test_the_page_has_both_pictures_and_the_report() -> None:
    text = shown("html")
    page = Page(text)
    assert not page.opened
    assert page.seen.count("svg") == 2 and page.seen.count("h1") == 1
    best = json.loads(shown("json"))["plan"]["settings"][0]["overrides"]
    assert all(line in page.text for line in best)
    assert not {"img", "link", "iframe"} & set(page.seen) and page.seen.count("script") == 1
    assert not re.search(r"""src=|href="(?!data:)|url\(|@import""", text)


def test_where_nothing_fits_there_is_no_picture_and_no_figure() -> None:
    given = ("/dev/null", "--model", "qwen2.5-14b", "--verl-version", "0.9.1", "--gpu", "1xh100-sxm")
    outs = {form: run("plan", *given, "-f", form, "--", *JOB) for form in ("svg", "csv", "html")}
    assert {result.code for result in outs.values()} == {1}
    assert "it fits on none" in outs["svg"].out
    assert [row["fits"] for row in csv.DictReader(io.StringIO(outs["csv"].out))] == ["false"]
    assert "svg" not in Page(outs["html"].out).seen


def drawn(*made: tuple[str, float, float, bool], words: Mapping[str, str] = WORDS) -> ElementTree.Element:
    items = tuple(
        Point(
            label=name,
            card=name,
            seconds=seconds,
            low_s=seconds / 2,
            high_s=2 * seconds,
            cost=cost,
            unbeaten=kept,
        )
        for name, seconds, cost, kept in made
    )
    cards = tuple(name for name, *_ in made)
    picture = TradeOffPicture(points=items, cards=cards, labels=words)
    return ElementTree.fromstring(trade_off_picture(picture))


def test_a_slower_point_lies_to_the_right_and_a_dearer_one_higher() -> None:
    root = drawn(("a", 10, 4, True), ("b", 40, 1, True))
    (way,) = [line.attrib["points"].split() for line in root.iter(f"{SVG}polyline")]
    (left, upper), (right, lower) = [tuple(map(float, pair.split(","))) for pair in way]
    assert left < right and upper < lower  # y counts downwards


def test_a_bar_reaches_over_the_interval_of_the_seconds() -> None:
    root = drawn(("a", 10, 4, True), ("b", 40, 1, True))
    bars = [path.attrib["d"] for path in root.iter(f"{SVG}path") if path.attrib["d"].count("v6") == 2]
    ends = [tuple(map(float, re.findall(r"^M([\d.]+) [\d.]+H([\d.]+)", bar)[0])) for bar in bars]
    (first, second), (third, fourth) = ends
    # From 5 to 20 and from 20 to 80 seconds: equal factors are equally long, and they meet.
    assert second == pytest.approx(third) and second - first == pytest.approx(fourth - third, abs=0.2)


def test_names_do_not_lie_on_one_another() -> None:
    root = drawn(*((f"point {number}", 100 + number, 1 + number / 100, True) for number in range(4)))
    places = [
        (float(text.attrib["x"]), float(text.attrib["y"]))
        for text in root.iter(f"{SVG}text")
        if str(text.text).startswith("point") and float(text.attrib["y"]) < 330
    ]
    assert len(places) == 4
    for place, (x, y) in enumerate(places):
        for other_x, other_y in places[place + 1 :]:
            assert abs(x - other_x) >= 40 or abs(y - other_y) >= 10


def test_words_of_the_legend_have_the_room_of_their_characters() -> None:
    """A Chinese character is twice as wide as a Latin one, whichever language is chosen while it is drawn."""
    root = drawn(("a", 10, 4, True), ("b", 40, 5, False), words={**WORDS, "unbeaten": "无两项都更优者"})
    x = {str(text.text): float(text.attrib["x"]) for text in root.iter(f"{SVG}text")}
    assert x[WORDS["beaten"]] - x["无两项都更优者"] > 7 * 11  # letters of eleven pixels


@pytest.mark.parametrize(("low", "high"), [(93.0, 1372.0), (77.0, 148.0), (0.4, 0.9), (5.0, 9000.0)])
def test_axes_have_a_few_round_numbers(low: float, high: float) -> None:
    for numbers in (log_ticks(low, high), even_ticks(low, high)):
        assert 2 <= len(numbers) <= 14
        assert all(low <= number <= high for number in numbers)
        assert numbers == sorted(numbers)
