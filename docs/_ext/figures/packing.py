"""Seconds of a step against the mean length of responses: padded, packed, and packed under a token budget."""

from collections.abc import Mapping, Sequence

import running_job
import token_budgets
from figures import Drawing
from figures.plot import axes, draw_lines
from kept_answers import cached_answer
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

WORDS = {
    "mean": "mean response, tokens",
    "plain": "each sequence padded",
    "packed": "packed, as many sequences at a time",
    "budget": "packed, with a token budget",
    "step": "step, s (modelled)",
}
_SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
_PACKED = "actor_rollout_ref.model.use_remove_padding=True"
_DYNAMIC = "actor_rollout_ref.actor.use_dynamic_bsz=True"
_BUDGET = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"


@cached_answer(words=False)
def _seconds(mean: int, *overrides: str) -> float:
    premises = Premises(gpu=running_job.GPU, verl_version=running_job.RELEASE, mean_response=mean)
    source = str(running_job.ROOT / running_job.FILE)
    return consult(source, [*running_job.OVERRIDES, *overrides], premises, block=False).advice.time.seconds


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """Three lines; the budget is the one at the knee."""
    longest = running_job.workload().batch.max_response_tokens
    means = [round(share * longest) for share in _SHARES]
    knee = token_budgets.knee(running_job.workload([_PACKED]))
    ways = {"plain": (), "packed": (_PACKED,), "budget": (_PACKED, _DYNAMIC, f"{_BUDGET}={knee}")}
    lines = {name: [_seconds(mean, *way) for mean in means] for name, way in ways.items()}
    with axes(name="packing") as ((axis,), finished):
        draw_lines(axis, means, lines, words)
        axis.set_ylim(0)
        axis.set_xlabel(words["mean"])
        axis.set_ylabel(words["step"])
        axis.legend()
    rows = tuple(
        (f"{mean:,}", *(f"{values[place]:.0f}" for values in lines.values()))
        for place, mean in enumerate(means)
    )
    return Drawing(svg=finished[0], header=(words["mean"], *(words[name] for name in lines)), rows=rows)
