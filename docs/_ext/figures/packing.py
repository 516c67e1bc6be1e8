"""The share of an unpacked micro-batch that is padding, against how long sequences are."""

from collections.abc import Mapping, Sequence

import running_job
from figures import Drawing
from figures.plot import COLOURS, MARKERS, axes
from tuner.cli.pipeline import consult
from tuner.cli.premises import Premises

WORDS = {
    "mean": "mean response, tokens",
    "plain": "each sequence padded",
    "packed": "packed",
    "step": "step, s (modelled)",
}
_SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
_PACKED = "actor_rollout_ref.model.use_remove_padding=True"


def _seconds(mean: int, *overrides: str) -> float:
    premises = Premises(gpu=running_job.GPU, verl_version=running_job.RELEASE, mean_response=mean)
    source = str(running_job.ROOT / running_job.FILE)
    return consult(source, [*running_job.OVERRIDES, *overrides], premises).advice.time.seconds


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """Two lines: seconds of a step without and with packing."""
    longest = running_job.workload().batch.max_response_tokens
    means = [round(share * longest) for share in _SHARES]
    lines = {
        "plain": [_seconds(mean) for mean in means],
        "packed": [_seconds(mean, _PACKED) for mean in means],
    }
    with axes(name="packing") as ((axis,), finished):
        for place, (name, values) in enumerate(lines.items()):
            axis.plot(means, values, color=COLOURS[place], marker=MARKERS[place], label=words[name])
        axis.set_ylim(0)
        axis.set_xlabel(words["mean"])
        axis.set_ylabel(words["step"])
        axis.legend()
    rows = tuple(
        (f"{mean:,}", f"{plain:.0f}", f"{packed:.0f}")
        for mean, plain, packed in zip(means, lines["plain"], lines["packed"], strict=True)
    )
    return Drawing(svg=finished[0], header=(words["mean"], words["plain"], words["packed"]), rows=rows)
