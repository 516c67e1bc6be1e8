"""The implementations of the output head that there are, as the benchmark's heads, in the order of their use.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import torch
from msgspec import structs
from torch import Tensor
from torch.nn import functional

from tuner.kernels.benchmark import heads as own
from tuner.kernels.benchmark.comparison_heads import COMPARISON, DEFAULT_COMPARISON
from tuner.kernels.benchmark.heads import Head, Rounding
from tuner.kernels.benchmark.problem import Problem
from tuner.kernels.benchmark.report import Task
from tuner.kernels.benchmark.rivals import LIGER_NATIVE, RIVAL_NAMES, VERL_TRITON, find_rivals
from tuner.kernels.comparison import HEADS
from tuner.validate.head.settings import HeadUse, HeadWork
from tuner.validate.head.worker.heads import from_logits
from tuner.workload import HeadKind, OutputHead
from tuner.workload.head import head_name

_READY_S, _COMPILED_S, _IMPORTED_S = 1.0, 5.0, 10.0
_OF_TORCH = (HeadKind.LOGITS, HeadKind.FUSED_TORCH)
_COMPARED = {head.name: head for head in COMPARISON}
_OWN = [head for head in own.HEADS if "(" not in head.name]  # on the path that the device chooses


@dataclass(frozen=True, kw_only=True)
class ImplementationChoice:
    """One implementation to measure, why it cannot be, or where further ones are found."""

    name: str
    way: HeadUse | None
    head: Head | None
    missing: str = ""
    wanted: bool = False  # configured or proposed
    foreign: bool = False  # another package's, which the trainer does not call
    further: Callable[[], Iterator["ImplementationChoice"]] | None = (
        None  # imports other packages, which takes seconds
    )


def choices(work: HeadWork, device: str) -> Iterator[ImplementationChoice]:
    """What is configured or proposed, this package's own, verl's ways, what else is installed."""
    yield from (_wanted(way, device) for way in work.wanted)
    for head in _OWN:
        yield ImplementationChoice(name=head.name, way=None, head=head)
    # The quickest to be ready first, the chunked ones, of which one number of chunks says little, after them.
    usual = sorted(
        DEFAULT_COMPARISON, key=lambda name: (HEADS[name].compiled, HEADS[name].chunk_tokens is not None)
    )
    for name in (*usual, *(name for name in _COMPARED if name not in DEFAULT_COMPARISON)):
        way = HeadUse.of(structs.replace(HEADS[name], logits_dtype=work.dtype), entropy=True)
        if not (device == "cpu" and compiles(way)):
            yield ImplementationChoice(name=name, way=way, head=_COMPARED[name])
    yield ImplementationChoice(
        name="kernels of other packages", way=None, head=None, further=partial(_rivals, work, device)
    )


def _rivals(work: HeadWork, device: str) -> Iterator[ImplementationChoice]:
    # Liger's native kernels start NVSHMEM and a process group, which later work of this process would meet.
    for name in (name for name in RIVAL_NAMES if name != LIGER_NATIVE):
        (rival,) = find_rivals(device, (name,))
        if isinstance(rival, Head):
            foreign = ImplementationChoice(name=name, way=None, head=rival, foreign=True)
            yield _of_triton(rival, work) if name == VERL_TRITON else foreign


def _of_triton(head: Head, work: HeadWork) -> ImplementationChoice:
    way = HeadUse.of(OutputHead(kind=HeadKind.FUSED_TRITON, logits_dtype=work.dtype), entropy=True)
    return ImplementationChoice(name=way.name, way=way, head=replace(head, name=way.name))


def ready_seconds(choice: ImplementationChoice, device: str) -> float:
    """Roughly, until one has run once: with torch's own kernels, or with some that are compiled first.

    Those of other packages take the import of these before, of which one may bring transformers.
    """
    if choice.further is not None:
        return _IMPORTED_S
    way = choice.way
    of_torch = way is not None and way.head.kind in _OF_TORCH and not compiles(way)
    return _READY_S if of_torch or device == "cpu" else _COMPILED_S


def compiles(way: HeadUse) -> bool:
    """Whether torch compiles its entropy: seconds on a GPU, and C++ on a CPU."""
    return way.head.kind is HeadKind.LOGITS and way.head.compiled and way.entropy


def _wanted(way: HeadUse, device: str) -> ImplementationChoice:
    """As the trainer computes it; a fused kernel that is another package's only where that is installed."""
    if device == "cpu" and compiles(way):
        return ImplementationChoice(
            name=way.name, way=way, head=None, missing="not compiled for a CPU", wanted=True
        )
    kind = way.head.kind
    if kind is HeadKind.FUSED_TRITON:
        (rival,) = find_rivals(device, (VERL_TRITON,))
        if isinstance(rival, Head):
            return ImplementationChoice(
                name=way.name, way=way, head=replace(rival, name=way.name), wanted=True
            )
        return ImplementationChoice(name=way.name, way=way, head=None, missing=rival.reason, wanted=True)
    if kind is HeadKind.FUSED_TUNER:
        return ImplementationChoice(name=way.name, way=way, head=replace(_OWN[0], name=way.name), wanted=True)
    if kind is HeadKind.FUSED_LIGER:
        return ImplementationChoice(
            name=way.name, way=way, head=None, missing="Liger's loss is not called from here", wanted=True
        )
    known = _COMPARED.get(way.name)
    return ImplementationChoice(name=way.name, way=way, head=known or _from_logits(way), wanted=True)


def _from_logits(way: HeadUse) -> Head:
    """A way with logits that the comparison does not name, as verl's engine computes it."""
    like = _COMPARED[head_name(OutputHead(kind=HeadKind.LOGITS, compiled=way.head.compiled))]

    def run(problem: Problem) -> tuple[Tensor, ...]:
        temperature = torch.ones_like(problem.labels_T, dtype=torch.float32)
        returned = SimpleNamespace(logits=functional.linear(problem.hidden_TH[None], problem.weight_VH))
        results = from_logits(returned, problem.labels_T, temperature, way.head, entropy=way.entropy)
        return tuple(result for result in results if result is not None)

    return replace(
        like,
        name=way.name,
        task=Task.EACH if way.entropy else Task.LOG_PROBS,
        run=run,
        reentrant=way.head.checkpointed and way.entropy,
        rounding=like.rounding if way.entropy else Rounding(logits=True),
    )
