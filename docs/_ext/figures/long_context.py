"""Peak of the actor's update against the length of one sequence, for what is done about it."""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

import running_job
from figures import Drawing
from figures.plot import axes, draw_lines, thousands
from tuner import memory
from tuner.units import GIB
from tuner.workload import Checkpointing, Phase, Workload

WORDS = {
    "length": "longest sequence, tokens",
    "peak": "peak of the update, GiB",
    "card": "the card",
    "kept": "activations kept",
    "recomputed": "recomputed",
    "offloaded": "recomputed and offloaded",
    "shared 2": "recomputed, Ulysses 2",
    "shared 4": "recomputed, Ulysses 4",
}
_LENGTHS = tuple(4096 * 2**power for power in range(6))


def _shared(job: Workload, ranks: int) -> Workload:
    parallel = replace(job.actor.engine.parallel, ulysses=ranks)
    return job.with_actor_engine(checkpointing=Checkpointing.FULL, parallel=parallel)


_WAYS: dict[str, Callable[[Workload], Workload]] = {
    "kept": lambda job: job.with_actor_engine(checkpointing=Checkpointing.NONE),
    "recomputed": lambda job: job.with_actor_engine(checkpointing=Checkpointing.FULL),
    "offloaded": lambda job: job.with_actor_engine(checkpointing=Checkpointing.FULL, activation_offload=True),
    "shared 2": lambda job: _shared(job, 2),
    "shared 4": lambda job: _shared(job, 4),
}


def _peak(job: Workload, length: int) -> float:
    """Of an update whose micro-batch is one sequence of this length."""
    batch = replace(job.batch, max_response_tokens=length - job.batch.max_prompt_tokens)
    budget = length // job.actor.engine.parallel.ulysses
    batching = replace(job.actor.update.batching, dynamic=True, token_budget=budget)
    found = memory.estimate(
        replace(job, batch=batch).with_actor(update=replace(job.actor.update, batching=batching))
    ).phase(Phase.UPDATE_ACTOR)
    if found is None:
        raise ValueError("the job of the guide has no update")
    return found.peak_bytes / GIB


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A line for each way; arguments are overrides of the job."""
    job = running_job.workload(arguments)
    lines = {name: [_peak(way(job), length) for length in _LENGTHS] for name, way in _WAYS.items()}
    card = job.cluster.gpu.capacity_bytes / GIB
    with axes(name="long-context", height=3.6) as ((axis,), finished):
        draw_lines(axis, _LENGTHS, lines, words)
        axis.axhline(card, color="#8c8c8c", linewidth=1)
        axis.text(_LENGTHS[0], card * 1.02, words["card"], fontsize=9, va="bottom")
        axis.set_xscale("log", base=2)
        axis.set_xticks(_LENGTHS, [thousands(length) for length in _LENGTHS])
        axis.set_ylim(0, 2 * card)
        axis.set_xlabel(words["length"])
        axis.set_ylabel(words["peak"])
        axis.legend(loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=2)
    rows = tuple(
        (f"{length:,}", *(f"{values[place]:.1f}" for values in lines.values()))
        for place, length in enumerate(_LENGTHS)
    )
    return Drawing(svg=finished[0], header=(words["length"], *(words[name] for name in lines)), rows=rows)
