"""Which tile a card takes: from what was measured on the most similar card and shape, never from its name."""

import itertools
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path as FilePath

import pytest

from tuner.kernels import measured_tiles
from tuner.kernels.measured_tiles import TunedCard
from tuner.kernels.tiles import Path, Plan, TileWork
from tuner.units import MIB

pytest.importorskip("triton")

from tuner.kernels.benchmark import tile_passes, tiles
from tuner.kernels.benchmark.problem import ProblemShape
from tuner.kernels.benchmark.shapes import DEFAULT_SHAPES
from tuner.kernels.benchmark.timing import Call

CARDS = {
    "H100": TunedCard(capability=(9, 0), processors=132, l2_bytes=50 * MIB, bytes_per_second=3352 * 10**9),
    "H200": TunedCard(capability=(9, 0), processors=132, l2_bytes=60 * MIB, bytes_per_second=4917 * 10**9),
}
BOTH = (Path.HOPPER, Path.PORTABLE)


def row(path: Path, group: int, milliseconds: float) -> dict[str, object]:
    return {"path": path.value, "tile": [128, 256, 64, 4, 4, group], "milliseconds": milliseconds}


def shape(hidden: int, *rows: dict[str, object]) -> dict[str, object]:
    return {"sizes": [16384, hidden, 152064], "passes": {TileWork.STATISTICS.value: list(rows)}}


def record(card: TunedCard, *shapes: dict[str, object]) -> dict[str, object]:
    values = {**vars(card), "capability": list(card.capability)}
    return {"device": "any name", **values, "shapes": list(shapes)}


@pytest.fixture
def _table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    wide = shape(5120, row(Path.HOPPER, 8, 40.0), row(Path.PORTABLE, 4, 39.0))
    table = [
        record(CARDS["H100"], shape(896, row(Path.HOPPER, 16, 7.0), row(Path.HOPPER, 4, 8.0)), wide),
        record(CARDS["H200"], shape(896, row(Path.HOPPER, 32, 7.0))),
    ]
    monkeypatch.setattr(measured_tiles, "records", lambda: table)
    measured_tiles.fastest.cache_clear()
    yield
    measured_tiles.fastest.cache_clear()


@pytest.mark.usefixtures("_table")
@pytest.mark.parametrize(
    ("card", "hidden", "allowed", "expected"),
    [
        ("H100", 896, BOTH, (Path.HOPPER, 16)),
        ("H100", 1024, BOTH, (Path.HOPPER, 16)),
        ("H100", 4096, BOTH, (Path.PORTABLE, 4)),
        ("H100", 4096, (Path.HOPPER,), (Path.HOPPER, 8)),
        ("H200", 5120, BOTH, (Path.HOPPER, 32)),
        ("H200", 5120, (Path.PORTABLE,), None),
    ],
)
def test_the_fastest_of_the_nearest_shape_of_the_nearest_card(
    card: str, hidden: int, allowed: tuple[Path, ...], expected: tuple[Path, int] | None
) -> None:
    plan = measured_tiles.fastest(CARDS[card], TileWork.STATISTICS, (12_000, hidden, 152_064), allowed)
    assert (None if plan is None else (plan.path, plan.tile.group)) == expected


@pytest.mark.usefixtures("_table")
def test_what_was_never_measured_has_no_fastest() -> None:
    ampere = TunedCard(capability=(8, 0), processors=108, l2_bytes=40 * MIB, bytes_per_second=2039 * 10**9)
    assert measured_tiles.fastest(ampere, TileWork.STATISTICS, (1, 1, 1), BOTH) is None
    assert measured_tiles.fastest(CARDS["H100"], TileWork.GRADIENT, (1, 1, 1), BOTH) is None


def test_a_card_unlike_every_record_keeps_the_default_of_its_device() -> None:
    """The records are of an H100 and an H200; an H20 has fewer processors beside the same memory."""
    sizes = (16_384, 3_584, 152_064)
    for card in CARDS.values():
        assert measured_tiles.fastest(card, TileWork.STATISTICS, sizes, BOTH) is not None
    h20 = TunedCard(capability=(9, 0), processors=78, l2_bytes=60 * MIB, bytes_per_second=4000 * 10**9)
    assert measured_tiles.fastest(h20, TileWork.STATISTICS, sizes, BOTH) is None


def test_steps_of_32_are_the_fastest_on_an_h200_or_nearly_so() -> None:
    record = next(one for one in measured_tiles.records() if one["device"] == "NVIDIA H200")
    before = {"path": "hopper", "tile": [128, 256, 32, 8, 4, 16]}
    for shape in record["shapes"]:
        for candidates in shape["passes"].values():
            times = [one["milliseconds"] for one in candidates if {k: one[k] for k in before} == before]
            assert times[0] <= 1.04 * candidates[0]["milliseconds"]


@pytest.mark.sampled(3)
@pytest.mark.triton
def test_tiles_that_are_timed_are_those_that_are_right(tmp_path: FilePath) -> None:
    plans, ticks = tiles.candidates("cpu"), itertools.count(1)

    def clock(run: Call) -> float:
        run()
        return float(next(ticks))

    made = tiles.measure(ProblemShape(tokens=17, hidden=16, vocabulary=70), plans, "cpu", 1, clock)
    assert {work: len(rows) for work, rows in made["passes"].items()} == {work.value: 2 for work in TileWork}
    file = tmp_path / "table.json"
    for card in (CARDS["H100"], CARDS["H200"], CARDS["H100"]):
        file.write_text(tiles.written(tiles.with_record(file, record(card, made))), encoding="utf-8")
    cards = json.loads(file.read_text(encoding="utf-8"))["cards"]
    assert [measured_tiles.card_in(one) for one in cards] == [CARDS["H200"], CARDS["H100"]]
    assert cards[0]["shapes"] == [made]


def test_a_tile_that_computes_something_else_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = tiles.candidates("cpu")
    inputs = tile_passes.PassMatrices.of(ProblemShape(tokens=17, hidden=16, vocabulary=70), "cpu")
    computed = tile_passes.passes

    def wrong(plan: Plan, inputs: tile_passes.PassMatrices) -> dict[TileWork, Call]:
        run = dict(computed(plan, inputs))
        if plan == plans[1]:
            gradient = run[TileWork.GRADIENT]
            run[TileWork.GRADIENT] = lambda: gradient().mul_(2)
        return run

    monkeypatch.setattr(tile_passes, "passes", wrong)
    assert list(tile_passes.right_plans(plans, inputs)) == plans[:1]
    assert "other bits of d_logits_TN" in capsys.readouterr().err


def test_the_table_has_the_shapes_of_the_benchmark_and_the_fastest_first() -> None:
    for card in measured_tiles.records():
        shapes = {"x".join(map(str, shape["sizes"])) for shape in card["shapes"]}
        # A chunk of the policy loss of the largest shape, measured on one card.
        assert shapes - {"4096x5120x152064"} == set(DEFAULT_SHAPES)
        for made in card["shapes"]:
            for work, rows in made["passes"].items():
                best = min(rows, key=lambda row: float(row["milliseconds"]))
                plan = measured_tiles.fastest(
                    measured_tiles.card_in(card), TileWork(work), tuple(made["sizes"]), BOTH
                )
                assert plan is not None and plan.path.value == best["path"] == rows[0]["path"]
                assert plan.tile.group == best["tile"][-1] == rows[0]["tile"][-1]


def test_the_page_shows_every_shape_and_pass_of_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FilePath(__file__).resolve().parents[2] / "docs" / "_ext")
    pytest.importorskip("docutils")  # of the documentation
    page = import_module("measured_tiles_table")
    for card in json.loads(page.FILE.read_text(encoding="utf-8"))["cards"]:
        rows = page.rows_of(card)
        assert len(rows) == sum(len(made["passes"]) for made in card["shapes"])
        assert {len(row) for row in rows} == {len(page.HEADER)}
        assert all(float(row[3]) <= float(row[5]) for row in rows)


def test_the_figures_of_the_page_are_those_that_were_recorded() -> None:
    docs = FilePath(__file__).resolve().parents[2] / "docs"
    page = (docs / "kernels.rst").read_text(encoding="utf-8")
    record = json.loads((docs / "validation" / "data" / "tiles-h100.json").read_text(encoding="utf-8"))
    cells = [
        [
            f"{counted['read_bytes'] / 1e9:.1f}",
            f"{counted['nanoseconds'] / 1e6:.1f}",
            f"{counted['cycles'] / 1e6:.1f}",
        ]
        for counted in record["counted"].values()
    ]
    for shape in record["milliseconds"]:
        forward = [value for name, value in shape.items() if name.endswith(" forward")]
        old, portable = shape["h128x256x32s8g16 forward"], shape["t128x256x64s3g16 forward"]
        cells.append([f"{value:.2f}" for value in (shape["bare"], old, portable, min(forward))])
    assert len(cells) == 4 + len(DEFAULT_SHAPES)
    for row in cells:
        assert "\n".join(f"     - {cell}" for cell in row) in page, row
    others = " and ".join(f"{value:.1f}" for value in sorted(record["bare_in_other_runs"]["milliseconds"]))
    assert f"took {others} ms in two other runs" in page
