"""Where the seconds of a step go, phase by phase: the job as it is, and with what the advice gives."""

from collections.abc import Mapping, Sequence

import running_job
from figures import Drawing
from figures.plot import COLOURS, HATCHES, axes

WORDS = {
    "seconds": "modelled seconds of one step",
    "before": "as it is",
    "after": "block pasted",
    "phase": "phase",
}


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """Two bars, the phases one behind the other."""
    runs = {words["before"]: running_job.time(), words["after"]: running_job.time([running_job.ADVISED])}
    names = [phase.phase.value for phase in runs[words["before"]].phases]
    rows = tuple(
        (name, *(f"{time.phases[place].seconds:.1f} s" for time in runs.values()))
        for place, name in enumerate(names)
    )
    with axes(height=2.4, name="step-seconds") as ((axis,), finished):
        for place, name in enumerate(names):
            axis.barh(
                list(runs),
                [time.phases[place].seconds for time in runs.values()],
                left=[sum(phase.seconds for phase in time.phases[:place]) for time in runs.values()],
                color=COLOURS[place % len(COLOURS)],
                hatch=HATCHES[place % len(HATCHES)],
                edgecolor="white",
                linewidth=0.5,
                label=name,
            )
        axis.invert_yaxis()
        axis.set_xlabel(words["seconds"])
        axis.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.45, -0.3))
    return Drawing(svg=finished[0], header=(words["phase"], *runs), rows=rows)
