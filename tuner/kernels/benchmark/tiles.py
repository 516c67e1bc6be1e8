"""Times every tile on this card and writes the table that ``tuner.kernels`` chooses from.

The record of this card is put in place of an older one; those of other cards stay. A tile that gives other
bits than the first, or statistics that differ, is left out and named.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path as FilePath
from typing import Any

import torch

from tuner.kernels import measured_tiles, tiles
from tuner.kernels.benchmark.machine import describe_machine
from tuner.kernels.benchmark.problem import ProblemShape
from tuner.kernels.benchmark.shapes import DEFAULT_SHAPES
from tuner.kernels.benchmark.speed import warm_up
from tuner.kernels.benchmark.tile_passes import PassMatrices, passes, right_plans
from tuner.kernels.benchmark.timing import Call, interleaved, milliseconds
from tuner.kernels.tiles import Path, Plan, Tile, TileWork

# rows, columns, depth, stages, warps; the row tiles that use a column tile while it is in the cache
TILES: dict[Path, dict[tuple[int, ...], tuple[int, ...]]] = {
    Path.HOPPER: {(128, 256, 64, 4, 4): (4, 8, 16, 32), (128, 256, 32, 8, 4): (4, 16)},
    Path.PORTABLE: {(128, 256, 64, 3, 8): (16,)},
}
ROUNDS = 5


def candidates(device: str) -> list[Plan]:
    """The plans that are tried, the default of the device first."""
    hidden = torch.empty((1, 8), device=device, dtype=torch.bfloat16)
    first = tiles.choose_path(hidden, hidden)
    default = tiles.default_tile(first, hidden)
    plans = [Plan(path=first, tile=default)]
    if not hidden.is_cuda:
        return [*plans, Plan(path=first, tile=Tile(**{**vars(default), "group": default.group + 1}))]
    for path in TILES if first is Path.HOPPER else (Path.PORTABLE,):
        for sizes, groups in TILES[path].items():
            plans += [Plan(path=path, tile=Tile.of((*sizes, group), default.programs)) for group in groups]
    return list(dict.fromkeys(plans))


def measure(
    shape: ProblemShape, plans: Sequence[Plan], device: str, rounds: int, clock: Callable[[Call], float]
) -> dict[str, Any]:
    """The record of one shape."""
    inputs = PassMatrices.of(shape, device)
    runs: dict[tuple[TileWork, Plan], Call] = {}
    for plan in right_plans(plans, inputs):
        runs |= {(work, plan): run for work, run in passes(plan, inputs).items()}
    names = {f"{number}": key for number, key in enumerate(runs)}
    times = interleaved(
        {name: runs[key] for name, key in names.items()}, rounds, clock=clock, before=warm_up(device)
    )
    rows_by_work: dict[TileWork, list[dict[str, Any]]] = {work: [] for work in TileWork}
    for name, (work, plan) in names.items():
        tile = plan.tile
        rows_by_work[work].append(
            {
                "path": plan.path.value,
                "tile": [tile.rows, tile.columns, tile.depth, tile.stages, tile.warps, tile.group],
                "milliseconds": round(times[name].median_ms, 4),
            }
        )
    return {
        "sizes": [shape.tokens, shape.hidden, shape.vocabulary],
        "passes": {
            work.value: sorted(rows, key=_milliseconds) for work, rows in rows_by_work.items() if rows
        },
    }


def _milliseconds(row: Mapping[str, Any]) -> float:
    return float(row["milliseconds"])


def with_record(file: FilePath, record: dict[str, Any]) -> dict[str, Any]:
    """The table with this record in place of an older one of the same card."""
    table: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"cards": []}
    card = measured_tiles.card_in(record)
    other_cards = [other for other in table["cards"] if measured_tiles.card_in(other) != card]
    return {**table, "cards": sorted([*other_cards, record], key=lambda one: str(one["device"]))}


def _on_one_line(match: re.Match[str]) -> str:
    return re.sub(r"(?<=\[) | (?=\])", "", " ".join(match.group().split()))


def written(table: Mapping[str, Any]) -> str:
    """The table as text, a measured tile a line."""
    text = json.dumps(table, indent=1)
    for innermost in (r"\[[^][{}]*\]", r"\{[^][{}]*(?:\[[^][{}]*\][^][{}]*)*\}"):
        text = re.sub(innermost, _on_one_line, text)
    return text + "\n"


def record_of(shapes: Sequence[dict[str, Any]], device: str, rounds: int) -> dict[str, Any]:
    """The record of this card."""
    machine = describe_machine(device)
    card = measured_tiles.card_of(torch.device(device))
    return {
        "device": machine.device,
        "driver": machine.driver,
        "versions": {name: machine.versions[name] for name in ("torch", "triton")},
        "measured": date.today().isoformat(),
        "rounds": rounds,
        "capability": list(card.capability),
        "processors": card.processors,
        "l2_bytes": card.l2_bytes,
        "bytes_per_second": card.bytes_per_second,
        "shapes": list(shapes),
    }


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tuner.kernels.benchmark.tiles",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--shapes", nargs="+", metavar="TxHxV", default=DEFAULT_SHAPES)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"timed calls (default: {ROUNDS})")
    parser.add_argument(
        "--output", type=FilePath, metavar="FILE", default=measured_tiles.FILE, help="the table"
    )
    arguments = parser.parse_args(argv)
    if not torch.cuda.is_available():
        sys.stderr.write("There is no CUDA device here, and a CPU has no speed to measure.\n")
        return 2
    try:
        shapes = [ProblemShape.parse(text) for text in arguments.shapes]
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    plans, measurements = candidates("cuda"), []
    for shape in shapes:
        measurements.append(measure(shape, plans, "cuda", arguments.rounds, milliseconds))
        torch.cuda.empty_cache()
        table = with_record(arguments.output, record_of(measurements, "cuda:0", arguments.rounds))
        arguments.output.write_text(written(table), encoding="utf-8")
        best = {work: rows[0] for work, rows in measurements[-1]["passes"].items()}
        sys.stdout.write(f"{shape}: " + "; ".join(f"{work}: {row}" for work, row in best.items()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
