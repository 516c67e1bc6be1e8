"""The peak of the actor's update against its token budget, for the ways to compute log-probabilities."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

import running_job
from figures import Drawing
from figures.plot import COLOURS, DASHES, MARKERS, axes, thousands
from tuner import memory
from tuner.units import GIB
from tuner.workload import HeadKind, Phase, Workload

WORDS = {
    "budget": "tokens of a micro-batch",
    "peak": "peak of the update, GiB",
    "card": "the card",
    "logits": "whole logits",
    "torch": "fused, torch",
    "triton": "fused, Triton",
}
_BUDGETS = tuple(2048 * 2**power for power in range(7))
_HEADS = {"logits": HeadKind.LOGITS, "torch": HeadKind.FUSED_TORCH, "triton": HeadKind.FUSED_TRITON}


def _peaks(job: Workload, head: HeadKind) -> Iterator[float]:
    """Of the update at each budget."""
    for budget in _BUDGETS:
        batching = replace(job.actor.update.batching, dynamic=True, token_budget=budget)
        update = replace(job.actor.update, batching=batching)
        other = job.with_actor(update=update).with_actor_head(kind=head, chunk_tokens=None)
        found = memory.estimate(other).phase(Phase.UPDATE_ACTOR)
        if found is None:
            raise ValueError("the job of the guide has no update")
        yield found.peak_bytes / GIB


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A line for each way; arguments are overrides of the job."""
    job = running_job.workload(arguments)
    peaks = {name: list(_peaks(job, head)) for name, head in _HEADS.items()}
    card = job.cluster.gpu.capacity_bytes / GIB
    with axes(name="token-budget") as ((axis,), finished):
        for place, (name, values) in enumerate(peaks.items()):
            axis.plot(
                _BUDGETS,
                values,
                color=COLOURS[place],
                linestyle=DASHES[place],
                marker=MARKERS[place],
                markersize=4,
                label=words[name],
            )
        axis.axhline(card, color="#8c8c8c", linewidth=1)
        axis.text(_BUDGETS[-1], card * 1.02, words["card"], color="#8c8c8c", fontsize=9, ha="right")
        axis.set_xscale("log", base=2)
        axis.set_xticks(_BUDGETS, [thousands(budget) for budget in _BUDGETS])
        axis.set_ylim(0, 1.5 * card)
        axis.set_xlabel(words["budget"])
        axis.set_ylabel(words["peak"])
        axis.legend(loc="upper left")
    rows = tuple(
        (f"{budget:,}", *(f"{values[place]:.1f}" for values in peaks.values()))
        for place, budget in enumerate(_BUDGETS)
    )
    return Drawing(svg=finished[0], header=(words["budget"], *(words[name] for name in peaks)), rows=rows)
