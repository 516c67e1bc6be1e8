"""What the block of the guide's job brings, one finding's overrides after the other."""

from collections.abc import Mapping, Sequence

import running_job
from figures import Drawing
from figures.plot import COLOURS, axes
from tuner.units import GIB

WORDS = {
    "seconds": "step, s (modelled)",
    "peak": "worst peak, GiB",
    "before": "as it is",
    "card": "the card",
    "change": "with",
}


def _steps() -> list[tuple[str, tuple[str, ...]]]:
    """Each finding of the block by its code, with its overrides and all before it."""
    combination = running_job.answer().advice.combination
    if combination is None:
        raise ValueError("the job of the guide gets no block to paste")
    steps: list[tuple[str, tuple[str, ...]]] = []
    overrides: tuple[str, ...] = ()
    for part in combination.contributions:
        overrides = (*overrides, *part.overrides)
        steps.append((part.finding.rule.code, overrides))
    return steps


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """Above the seconds, below the worst peak; each step keeps what the earlier ones changed."""
    steps = [(words["before"], ()), *_steps()]
    seconds = [running_job.time(overrides).seconds for _, overrides in steps]
    peaks = [running_job.phase("worst", overrides).peak_bytes / GIB for _, overrides in steps]
    card = running_job.answer().advice.estimate.capacity_bytes / GIB
    names = [name for name, _ in steps]
    with axes(height=3.8, rows=2, name="waterfall") as ((above, below), finished):
        above.bar(names, seconds, color=COLOURS[0], hatch="", edgecolor="white")
        above.bar_label(above.containers[0], fmt="{:.0f}", fontsize=9)  # type: ignore[arg-type]
        above.set_ylabel(words["seconds"])
        above.margins(y=0.15)
        below.bar(names, peaks, color=COLOURS[4], hatch="//", edgecolor="white")
        below.axhline(card, color="#8c8c8c", linewidth=1)
        below.text(-0.4, card * 1.02, words["card"], fontsize=9, va="bottom")
        below.set_ylim(0, card * 1.2)
        below.set_ylabel(words["peak"])
        below.tick_params(axis="x", labelrotation=45)
    rows = tuple(
        (name, f"{time:.0f} s", f"{peak:.1f} GiB")
        for name, time, peak in zip(names, seconds, peaks, strict=True)
    )
    return Drawing(svg=finished[0], header=(words["change"], words["seconds"], words["peak"]), rows=rows)
