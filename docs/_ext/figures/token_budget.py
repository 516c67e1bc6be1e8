"""Peak and seconds of the actor's update against its token budget, with activations recomputed and kept."""

from collections.abc import Mapping, Sequence

import running_job
from figures import Drawing
from figures.plot import axes, draw_lines, thousands
from token_budgets import BUDGETS, knee, sweep
from tuner.units import GIB
from tuner.workload import Checkpointing

WORDS = {
    "budget": "token budget of a micro-batch",
    "peak": "peak of the update, GiB",
    "seconds": "update, s (modelled)",
    "card": "the card",
    "knee": "knee",
    "recomputed": "activations recomputed",
    "kept": "activations kept",
}
_WAYS = {"recomputed": Checkpointing.FULL, "kept": Checkpointing.NONE}


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A line for each way, and the job's knee; arguments are overrides of the job."""
    job = running_job.workload(arguments)
    found = {name: sweep(job.with_actor_engine(checkpointing=way)) for name, way in _WAYS.items()}
    card, turn = job.cluster.gpu.capacity_bytes / GIB, knee(job)
    with axes(height=4.6, rows=2, name="token-budget") as ((above, below), finished):
        peaks = {name: [point.peak_bytes / GIB for point in points] for name, points in found.items()}
        seconds = {name: [point.update_seconds for point in points] for name, points in found.items()}
        draw_lines(above, BUDGETS, peaks, words)
        draw_lines(below, BUDGETS, seconds, words)
        for axis in (above, below):
            axis.axvline(turn, color="#8c8c8c", linewidth=1, linestyle=":")
        below.text(turn * 1.06, 2, words["knee"], fontsize=9)
        above.axhline(card, color="#8c8c8c", linewidth=1)
        above.text(BUDGETS[0], card * 1.02, words["card"], fontsize=9, va="bottom")
        above.set_xscale("log", base=2)
        above.set_xticks(BUDGETS, [thousands(budget) for budget in BUDGETS])
        above.set_ylim(0, 1.6 * card)
        above.set_ylabel(words["peak"])
        below.legend(loc="lower right")  # nothing is drawn there: seconds level off far above zero
        below.set_ylim(0)
        below.set_ylabel(words["seconds"])
        below.set_xlabel(words["budget"])
    rows = tuple(
        (
            f"{budget:,}",
            *(f"{points[place].peak_bytes / GIB:.1f} GiB" for points in found.values()),
            *(f"{points[place].update_seconds:.0f} s" for points in found.values()),
        )
        for place, budget in enumerate(BUDGETS)
    )
    names = tuple(words[name] for name in found)
    return Drawing(svg=finished[0], header=(words["budget"], *names, *names), rows=rows)
