"""Holds plans of launches to what advice says of them; run it by hand.

    python -m tests.measure.plans [--layouts] [--tuned] [--every N] [--card CARD] [--brief] [--output FILE]
        [--jobs N] [--limit SECONDS] [--lists FILE ... --trees FOLDER ...] [FILES ...]

A line of JSON for each launch: verl's own example scripts, or the scripts and YAML that are named, and at the
end how many of the plans were no slower than advice on the same cards, and the same when they are read again.
``--layouts`` asks for the best setting of the published layout too, which takes as long again; ``--tuned``
takes verl's folder of scripts that were tuned for the cards in their names; ``--brief`` leaves out the lines
to paste. ``--lists`` takes lists of public launches, such as those of ``tests/data/public-launches``, as far
as their repositories lie unpacked, as ``owner+name``, in the folders of ``--trees``. ``--jobs`` shares the
launches among processes, and ``--limit`` ends one that takes longer. No file is executed.
``docs/validation/data/plans-of-tuned-scripts.jsonl`` is what ``--tuned --layouts --brief`` printed on the day
that it says.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import TextIO

import msgspec
from msgspec.structs import replace

from tests.measure.plans.compare import Row
from tests.measure.plans.launches import Launch, of_files, of_lists, verl_launches
from tests.measure.plans.many import Manner, rows_of
from tuner import __version__

CLOSE, FAR = 0.10, 0.15  # shares of the plan's seconds


def main() -> None:
    """Print a line for each launch, then the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--layouts", action="store_true")
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--card")
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--lists", nargs="*", type=Path, default=())
    parser.add_argument("--trees", nargs="*", type=Path, default=())
    parser.add_argument("--output", type=argparse.FileType("w"), default=sys.stdout)
    options = parser.parse_args()
    chosen = (one for one in _launches(options) if one.tuned or not options.tuned)
    manner = Manner(layouts=options.layouts, limit_s=options.limit)
    rows = []
    for row in rows_of(islice(chosen, options.skip, None, options.every), manner, jobs=options.jobs):
        rows.append(row)
        _write(options.output, brief(row) if options.brief else row)
    _write(options.output, summary(rows))


def _launches(options: argparse.Namespace) -> Iterator[Launch]:
    if options.lists:
        return of_lists(options.lists, options.trees, options.card)
    return of_files(options.files, options.card) if options.files else verl_launches()


def _write(stream: TextIO, row: object) -> None:
    stream.write(msgspec.json.encode(row).decode() + "\n")
    stream.flush()


def brief(row: Row) -> Row:
    """A row without the lines to paste, and with the three largest reasons."""
    shown = row.published
    if shown is not None:
        shown = replace(shown, reasons=shown.reasons[:3])
    rounded = {name: _rounded(getattr(row, name)) for name in ("own_s", "block_s", "plan_s")}
    return replace(row, block=(), plan=(), published=shown, **rounded)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """What all rows come to."""
    read = [row for row in rows if not row.unread]
    beside = [row for row in read if row.block_s is not None or row.own_s is not None]
    slower = [one.published.slower for one in read if one.published and one.published.slower is not None]
    told: dict[str, object] = {
        "date": date.today().isoformat(),
        "tuner": __version__,
        "launches": len(rows),
        "planned": len(read),
        "fit": sum(row.plan_s is not None for row in read),
        "beside advice that fits": len(beside),
        "faster than advice by more than 1 %": sum(_gain(row) > 0.01 for row in beside),
        "failures": dict(Counter(failure for row in rows for failure in row.failures)),
        "seconds of one core": round(sum(row.took_s for row in rows), 1),
    }
    if slower:
        far = [row for row in read if row.published and (row.published.slower or 0.0) > FAR]
        told["layouts"] = {
            "published layouts that fit": len(slower),
            "published layouts on which nothing fits": sum(
                row.published is not None and row.published.slower is None for row in read
            ),
            f"within {CLOSE:.0%} of the plan": sum(one <= CLOSE for one in slower),
            f"slower by more than {FAR:.0%}": len(far),
            "first reason of these": dict(Counter(_first_reason(row) for row in far).most_common()),
        }
    return told


def _gain(row: Row) -> float:
    advised = [one for one in (row.own_s, row.block_s) if one is not None]
    return 1 - row.plan_s / min(advised) if row.plan_s is not None and advised else 0.0


def _first_reason(row: Row) -> str:
    layouts = [] if row.published is None else [one for one in row.published.reasons if "layout" in one.axis]
    return layouts[0].axis if layouts else "several together"


if __name__ == "__main__":
    main()
