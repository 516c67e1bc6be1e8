"""Sequences at once and the rollout's peak against the engine's share of the card."""

from collections.abc import Mapping, Sequence

import running_job
from figures import Drawing
from figures.plot import COLOURS, MARKERS, axes
from tuner import memory
from tuner.memory.rollout.capacity import rollout_memory
from tuner.units import GIB
from tuner.workload import Phase

WORDS = {
    "fraction": "gpu_memory_utilization",
    "sequences": "sequences at once",
    "cap": "max_num_seqs",
    "peak": "peak of rollout, GiB",
    "card": "the card",
}
_FRACTIONS = tuple(step / 20 for step in range(3, 19))


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """Above the sequences, below the peak; arguments are overrides of the job."""
    job = running_job.workload(arguments)
    jobs = [job.with_rollout(memory_fraction=fraction) for fraction in _FRACTIONS]
    sequences = [
        0 if memory.estimate(other).problems else rollout_memory(other).concurrent_sequences for other in jobs
    ]
    found = [memory.estimate(other).phase(Phase.ROLLOUT) for other in jobs]
    peaks = [phase.peak_bytes / GIB for phase in found if phase is not None]
    cap = job.generator.max_sequences
    card = job.cluster.gpu.capacity_bytes / GIB
    with axes(height=3.8, rows=2, name="engine-fraction") as ((above, below), finished):
        above.plot(_FRACTIONS, sequences, color=COLOURS[0], marker=MARKERS[0], markersize=4)
        above.axhline(cap, color="#8c8c8c", linewidth=1)
        # Low letters and underscores stay clear of the line and of the points on it.
        above.text(_FRACTIONS[-1], cap * 1.09, words["cap"], fontsize=9, ha="right")
        above.set_ylabel(words["sequences"])
        above.set_ylim(0, 1.3 * cap)
        below.plot(_FRACTIONS, peaks, color=COLOURS[1], marker=MARKERS[1], markersize=4)
        below.axhline(card, color="#8c8c8c", linewidth=1)
        below.text(_FRACTIONS[0], card * 1.02, words["card"], fontsize=9, va="bottom")
        below.set_ylim(0, card * 1.2)
        below.set_ylabel(words["peak"])
        below.set_xlabel(words["fraction"])
    rows = tuple(
        (f"{fraction:.2f}", f"{count:,}", f"{peak:.1f}")
        for fraction, count, peak in zip(_FRACTIONS, sequences, peaks, strict=True)
    )
    header = (words["fraction"], words["sequences"], words["peak"])
    return Drawing(svg=finished[0], header=header, rows=rows)
