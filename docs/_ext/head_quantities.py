"""What ``:now:`` tells of the output head: its memory as the model has it, and as it was measured."""

from collections.abc import Callable, Sequence

import measured_heads
import running_job
from tuner.batching import micro_batch_tokens
from tuner.consultation.head import HeadSizes, head_rows
from tuner.dtypes import DType
from tuner.memory.head.logits import published_rule_bytes
from tuner.units import GIB
from tuner.workload import Phase

Overrides = Sequence[str]


def _head(direction: str, tokens: str, *way: str | Overrides) -> str:
    """The peak of one way of the comparison, with entropy, in ``forward`` or ``training``."""
    *words, overrides = way
    engine = running_job.workload(tuple(overrides)).actor.engine
    model = running_job.workload(tuple(overrides)).model
    sizes = HeadSizes(tokens=int(tokens), vocab=model.vocab, hidden=model.hidden, dtype=engine.compute_dtype)
    name = " ".join(str(word) for word in words)
    found = {
        row.name: {"forward": row.forward_entropy_bytes, "training": row.training_entropy_bytes}
        for row in head_rows(sizes)
    }
    return f"{found[name][direction] / GIB:.1f} GiB"


def _published(tokens: str, overrides: Overrides) -> str:
    size = published_rule_bytes(tokens=int(tokens), vocab=running_job.workload(overrides).model.vocab)
    return f"{size / GIB:.1f} GiB"


def _logits_float32(tokens: str, overrides: Overrides) -> str:
    size = int(tokens) * running_job.workload(overrides).model.vocab * DType.FLOAT32.bytes
    return f"{size / GIB:.1f} GiB"


def _vocabulary(overrides: Overrides) -> str:
    return f"{running_job.workload(overrides).model.vocab:,}"


def _micro_batch(name: str, overrides: Overrides) -> str:
    job = running_job.workload(overrides)
    (found,) = (each for each in job.passes() if each.phase is Phase(name))
    return f"{micro_batch_tokens(job.batch, found):,} tokens"


def _head_quantity(what: str, tokens: str, *name: str | Overrides) -> str:
    """Forward and backward pass of a head: ``ms``, or ``GiB`` beyond the inputs."""
    *words, overrides = name
    model = running_job.workload(tuple(overrides)).model
    where = measured_heads.shape(int(tokens), hidden=model.hidden, vocabulary=model.vocab)
    found = measured_heads.head(where, " ".join(str(word) for word in words))
    if found.speed is None or found.peak_bytes is None:
        raise ValueError(f"{found.name} was not measured")
    return (
        f"{found.speed.both.median_ms:.0f} ms" if what == "ms" else f"{found.peak_bytes.both / GIB:.1f} GiB"
    )


def _measured_on(overrides: Overrides) -> str:
    return measured_heads.measured_on()


#: As in ``computed``: a name and how many words follow it.
QUANTITIES: dict[str, Callable[..., str]] = {
    "head": _head,  # forward or training, tokens, a way: of the table of estimate-memory
    "published": _published,  # tokens: the rule of verl's guide
    "logits-float32": _logits_float32,  # tokens: a tensor of their logits in that dtype
    "vocabulary": _vocabulary,
    "micro-batch": _micro_batch,  # a phase: its largest, in tokens
    "measured": _head_quantity,  # ms or GiB, tokens, a head: of the benchmark
    "measured-on": _measured_on,
}
