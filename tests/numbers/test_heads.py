"""Bytes of every output head, with the fewest tokens at which its chunks show, as they are today.

A line is a head; its numbers are those of a pass without gradients and of training, without the entropy and
with it, and the names of the tensors that exist at the worst moment. ``UPDATE_GOLDEN=1 pytest tests/numbers``
writes them anew.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

from msgspec.structs import replace

from tests.cli.golden import expect
from tests.numbers.test_numbers import FOLDER
from tuner.dtypes import DType
from tuner.memory.head.logits import logit_tensors
from tuner.memory.head.tensors import tensor_bytes
from tuner.memory.head.terms import head_peak_bytes
from tuner.memory.megatron.head import head_tensors
from tuner.workload import HeadKind, OutputHead, Scaling

TOKENS, VOCAB, HIDDEN, CHUNK = 3000, 1001, 64, 700
SWITCHES = ("compiled", "checkpointed", "clones_logits", "fused_cross_entropy", "shifts_logits")
PASSES = tuple(product((False, True), repeat=2))  # entropy, training


def heads() -> Iterator[tuple[str, OutputHead]]:
    """Heads with logits in every combination of what they are made of, and one of each other kind."""
    for scaling, dtype, chunk in product(Scaling, (DType.BFLOAT16, DType.FLOAT32), (None, CHUNK)):
        for switches in product((False, True), repeat=len(SWITCHES)):
            given: dict[str, Any] = dict(zip(SWITCHES, switches, strict=True))
            head = OutputHead(
                kind=HeadKind.LOGITS, scaling=scaling, logits_dtype=dtype, chunk_tokens=chunk, **given
            )
            named = " ".join(name for name, on in given.items() if on)
            yield f"{scaling.value} {dtype.value} {chunk} {named}", head
    for kind in HeadKind:
        yield kind.value, OutputHead(kind=kind)
        yield f"{kind.value} float32", replace(OutputHead(kind=kind), logits_dtype=DType.FLOAT32)


def test_heads_of_one_gpu() -> None:
    lines = []
    for name, head in heads():
        sizes = [
            head_peak_bytes(
                head, tokens=TOKENS, vocab=VOCAB, hidden=HIDDEN, entropy=entropy, training=training
            )
            for entropy, training in PASSES
        ]
        lines.append(f"{name}: {' '.join(map(str, sizes))}")
        if head.kind is HeadKind.LOGITS:
            lines += [f"  {text}" for text in _tensors(head)]
    expect("heads.txt", "\n".join(lines), folder=FOLDER)


def _tensors(head: OutputHead) -> Iterator[str]:
    for entropy, training in PASSES:
        tensors = logit_tensors(head, tokens=TOKENS, entropy=entropy, training=training)
        yield " ".join(tensor.name for tensor in tensors)


def test_heads_of_a_megatron_rank() -> None:
    lines = []
    for name, head in heads():
        if head.kind is HeadKind.LOGITS:
            sets = [head_tensors(head, entropy=entropy, training=training) for entropy, training in PASSES]
            sizes = [tensor_bytes(tensors, tokens=TOKENS, chunk=CHUNK, columns=VOCAB) for tensors in sets]
            names = " | ".join(" ".join(tensor.name for tensor in tensors) for tensors in sets)
            lines.append(f"{name}: {' '.join(map(str, sizes))} {names}")
    expect("heads-megatron.txt", "\n".join(lines), folder=FOLDER)
