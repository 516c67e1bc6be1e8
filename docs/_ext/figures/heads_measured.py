"""What the output heads take: milliseconds against memory of both passes, as the benchmark recorded them."""

from collections.abc import Mapping, Sequence

import measured_heads
import running_job
from figures import Drawing
from figures.plot import COLOURS, MARKERS, axes
from tuner.kernels.benchmark.report import HeadResult, HeadSource, Task
from tuner.units import GIB

WORDS = {
    "time": "forward + backward pass, ms",
    "size": "memory beyond the inputs, GiB",
    "head": "head",
    "computes": "what it computes",
    "each": "each log-probability and entropy",
    "policy loss": "the policy loss, from each log-probability and entropy",
    "mean": "the mean log-probability alone",
}
_TOKENS = 16384
_TASKS = {Task.EACH: "each", Task.POLICY_LOSS: "policy loss", Task.MEAN: "mean"}
_FAMILIES = {HeadSource.OURS: COLOURS[0], HeadSource.COMPARISON: COLOURS[1], HeadSource.RIVAL: COLOURS[2]}


def _label(head: HeadResult) -> str:
    return f"tuner, {head.name}" if head.family is HeadSource.OURS else head.name


def _shown(tokens: int) -> list[HeadResult]:
    """The heads that have a speed, but for the portable form of our own, which other GPUs get."""
    model = running_job.workload().model
    where = measured_heads.shape(tokens, hidden=model.hidden, vocabulary=model.vocab)
    return [head for head in where.heads if head.speed is not None and "portable" not in head.name]


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A point for each head, a colour for whose it is; the argument is how many tokens, else 16,384."""
    heads = _shown(int(arguments[0]) if arguments else _TOKENS)
    seen = dict.fromkeys(HeadSource, 0)
    rows: list[tuple[str, ...]] = []
    with axes(name="heads-measured", height=4.2) as ((axis,), finished):
        for head in heads:
            if head.speed is None or head.peak_bytes is None:
                raise ValueError(f"{head.name} was not measured")
            time, size = head.speed.both.median_ms, head.peak_bytes.both / GIB
            axis.plot(
                [time],
                [size],
                linestyle="none",
                color=_FAMILIES[head.family],
                marker=MARKERS[seen[head.family]],
                markerfacecolor="none" if head.task is Task.MEAN else None,
                markersize=8,
                label=_label(head),
            )
            seen[head.family] += 1
            rows.append((_label(head), words[_TASKS[head.task]], f"{time:.1f}", f"{size:.2f}"))
        axis.set_yscale("log")
        axis.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        axis.minorticks_off()
        axis.set_xlim(left=0)
        axis.set_xlabel(words["time"])
        axis.set_ylabel(words["size"])
        axis.legend(loc="upper center", bbox_to_anchor=(0.45, -0.17), ncols=2)
    header = tuple(words[name] for name in ("head", "computes", "time", "size"))
    return Drawing(svg=finished[0], header=header, rows=tuple(rows))
