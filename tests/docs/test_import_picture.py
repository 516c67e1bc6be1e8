"""The pictures of packages and what they import of one another."""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError
from itertools import combinations
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import grimp
import pytest

from tests.cli.runner import ROOT

pytestmark = pytest.mark.sampled(6)

SVG = "{http://www.w3.org/2000/svg}"
PACKAGES = ["tuner", "tuner.memory", "tuner.validate"]


@pytest.fixture(scope="module")
def picture() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs" / "_ext"))
        yield importlib.import_module("import_picture")


@pytest.fixture(scope="module")
def floor_plan(picture: ModuleType) -> ModuleType:
    return importlib.import_module("floor_plan")


@pytest.fixture(scope="module")
def house(picture: ModuleType) -> ModuleType:
    return importlib.import_module("house")


@cache
def import_graph() -> grimp.ImportGraph:
    return grimp.build_graph("tuner", cache_dir=None)


def imports_by_grimp(package: str) -> set[tuple[str, str]]:
    """The imports between the children of a package, as the import contracts see them."""
    graph = import_graph()
    depth = package.count(".") + 1
    names = [module for module in graph.modules if module.startswith(f"{package}.")]
    rooms = {
        (source.split(".")[depth], target.split(".")[depth])
        for source in names
        for target in graph.find_modules_directly_imported_by(source)
        if target.startswith(f"{package}.")
    }
    return {(source, target) for source, target in rooms if source != target}


def drawn(picture: ModuleType, package: str) -> ElementTree.Element:
    text = picture.draw(picture.read_house(package), title="a < b", description="what is seen")
    return ElementTree.fromstring(text.replace("<svg ", f'<svg xmlns="{SVG[1:-1]}" ', 1))


def boxes(svg: ElementTree.Element) -> dict[str, tuple[float, float]]:
    """The middle of the name of each box, by the name."""
    names = [text for text in svg.iter(f"{SVG}text") if text.get("class") == "name"]
    return {str(text.text): (float(text.attrib["x"]), float(text.attrib["y"])) for text in names}


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_and_imports_are_those_of_the_import_contracts(house: ModuleType, package: str) -> None:
    read = house.read_house(package)
    assert set(read.rooms) == {name.rpartition(".")[2] for name in import_graph().find_children(package)}
    assert read.imports == imports_by_grimp(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_stands_on_one_floor_and_imports_from_lower_ones(house: ModuleType, package: str) -> None:
    read = house.read_house(package)
    floor_of = {room: floor for floor, rooms in enumerate(read.floors) for room in rooms}
    assert sorted(room for rooms in read.floors for room in rooms) == sorted(read.rooms)
    assert all(floor_of[source] < floor_of[target] for source, target in read.imports)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_import_is_drawn_or_implied_by_what_is_drawn(house: ModuleType, package: str) -> None:
    read = house.read_house(package)
    shown = house.without_implied(read.rooms, read.imports)
    assert shown <= read.imports
    assert house.reachable(read.rooms, shown) == house.reachable(read.rooms, read.imports)
    for line in shown:
        assert house.reachable(read.rooms, shown - {line}) != house.reachable(read.rooms, shown)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_picture_has_every_room_with_its_lines_and_says_what_it_shows(
    picture: ModuleType, package: str
) -> None:
    svg, read = drawn(picture, package), picture.read_house(package)
    assert set(boxes(svg)) == set(read.rooms)
    notes = [text.text for text in svg.iter(f"{SVG}text") if text.get("class") == "note"]
    assert sorted(map(str, notes)) == sorted(f"{room.lines:,}" for room in read.rooms.values())
    assert svg.findtext(f"{SVG}title") == "a < b"
    assert svg.findtext(f"{SVG}desc") == "what is seen"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_line_leads_down_to_a_box_or_a_bend(picture: ModuleType, package: str) -> None:
    svg = drawn(picture, package)
    lines = [path.attrib["d"] for path in svg.iter(f"{SVG}path") if path.get("class") == "line"]
    assert lines
    for line in lines:
        # M x y V y C x y x y x y
        _, *rest = map(float, re.findall(r"[\d.]+", line))
        heights = [rest[0], *rest[1::2]]
        assert heights == sorted(heights)
        assert heights[0] < heights[-1]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_line_of_the_plan_is_lost_and_boxes_keep_apart(
    picture: ModuleType, floor_plan: ModuleType, package: str
) -> None:
    read = picture.read_house(package)
    shown = picture.without_implied(read.rooms, read.imports)
    plan = floor_plan.plan(read.floors, shown)
    below: dict[Any, list[Any]] = {}
    for upper, lower in plan.segments:
        below.setdefault(upper, []).append(lower)

    def ends(spot: Any) -> set[str]:
        return {spot} if isinstance(spot, str) else {end for lower in below[spot] for end in ends(lower)}

    assert {(room, end) for room in read.rooms for spot in below.get(room, ()) for end in ends(spot)} == shown
    for row in plan.rows:
        named = [spot for spot in row if isinstance(spot, str)]
        for first, second in combinations(named, 2):
            half = (floor_plan.box_width(first) + floor_plan.box_width(second)) / 2
            assert plan.middles[second] - plan.middles[first] > half
        for spot in named:
            half = floor_plan.box_width(spot) / 2
            assert half < plan.middles[spot] < plan.width - half


def test_a_line_that_does_not_lead_down_is_refused(floor_plan: ModuleType) -> None:
    with pytest.raises(ValueError, match="from b to a does not lead down"):
        floor_plan.plan([["a"], ["b"]], [("b", "a")])


def test_rooms_that_import_each_other_in_a_circle_have_no_floors(house: ModuleType) -> None:
    with pytest.raises(CycleError):
        house.floors_of(["a", "b", "c"], {("a", "b"), ("b", "a"), ("b", "c")})


def test_a_sentence_ends_where_a_blank_follows_its_full_stop(house: ModuleType, tmp_path: Any) -> None:
    (tmp_path / "room.py").write_text(
        '"""Reads ``config.json`` into :class:`~a.b.Shape`. No more.\n\nText."""\n'
    )
    (room,) = house.rooms_in(tmp_path)
    assert room.sentence == "Reads ``config.json`` into ``Shape``."


@pytest.mark.parametrize("package", [*PACKAGES, "tuner.rules", "tuner.trainers.verl.checks"])
def test_every_package_says_what_it_holds(house: ModuleType, package: str) -> None:
    assert not [room.name for room in house.read_house(package).rooms.values() if not room.sentence]
