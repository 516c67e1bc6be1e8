"""What the ways to compute log-probabilities and entropy take in training, against tokens."""

from collections.abc import Mapping, Sequence

import running_job
from figures import Drawing
from figures.plot import axes, draw_lines, thousands
from tuner.consultation.head import HeadSizes, head_rows
from tuner.memory.head.logits import published_rule_bytes
from tuner.units import GIB

WORDS = {
    "tokens": "tokens of a micro-batch",
    "size": "logits and entropy, GiB",
    "eager": "eager, with entropy",
    "compiled": "compiled, with entropy",
    "fused, torch": "fused, torch",
    "fused, Triton": "fused, Triton",
    "published": "the published rule",
}
_SHOWN = ("eager", "compiled", "fused, torch", "fused, Triton")
_TOKENS = tuple(1024 * 2**power for power in range(6))


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A line for each way, for the vocabulary of the guide's job."""
    model = running_job.workload().model
    dtype = running_job.workload().actor.engine.compute_dtype
    sizes = [
        HeadSizes(tokens=count, vocab=model.vocab, hidden=model.hidden, dtype=dtype) for count in _TOKENS
    ]
    tables = [{row.name: row.training_entropy_bytes / GIB for row in head_rows(size)} for size in sizes]
    lines = {name: [table[name] for table in tables] for name in _SHOWN}
    lines["published"] = [published_rule_bytes(tokens=size.tokens, vocab=size.vocab) / GIB for size in sizes]
    with axes(name="heads") as ((axis,), finished):
        draw_lines(axis, _TOKENS, lines, words)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(_TOKENS, [thousands(count) for count in _TOKENS])
        axis.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
        axis.set_xlabel(words["tokens"])
        axis.set_ylabel(words["size"])
        axis.legend(loc="upper center", bbox_to_anchor=(0.45, -0.22), ncols=2)
    rows = tuple(
        (f"{count:,}", *(f"{values[place]:.2f}" for values in lines.values()))
        for place, count in enumerate(_TOKENS)
    )
    return Drawing(svg=finished[0], header=(words["tokens"], *(words[name] for name in lines)), rows=rows)
