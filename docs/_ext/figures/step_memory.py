"""Memory of one GPU through a step of the guide's job, phase by phase."""

from collections.abc import Mapping, Sequence

import running_job
from figures import Drawing
from tuner.render.bars import PARTS
from tuner.render.numbers import gib
from tuner.render.picture import phase_picture

WORDS = {part.label: part.label for part in PARTS} | {"card": "the card", "phase": "phase", "peak": "peak"}


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A bar for each phase; arguments are overrides of the job."""
    estimate = running_job.answer(*arguments).advice.estimate
    phases = estimate.telling_phases
    present = [part for part in PARTS if any(phase.bytes_of(part.item) for phase in phases)]
    rows = tuple(
        (
            phase.phase.value,
            gib(phase.peak_bytes),
            *(gib(phase.bytes_of(part.item)) if phase.bytes_of(part.item) else "–" for part in present),
        )
        for phase in phases
    )
    header = (words["phase"], words["peak"], *(words[part.label] for part in present))
    return Drawing(svg=phase_picture(estimate, labels=words), header=header, rows=rows)
