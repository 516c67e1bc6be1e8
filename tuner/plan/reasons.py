"""Why nothing fits: what fails in every setting, and what would have to give for the nearest one to fit."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.advise.usual_host import may_lack_host
from tuner.enumeration import Enum
from tuner.hardware import Gpu
from tuner.memory.fitting.limits import values_that_fit
from tuner.plan.gpus import step_gpu_hours
from tuner.plan.judge import Judge
from tuner.rules.case import CaseFigures
from tuner.units import GIB
from tuner.workload import Quantity, Workload

_LEAST_SPEED = 0.5  # of the memory of a larger card: nobody takes one of another class for its size


class RelaxationKind(Enum):
    """What gives."""

    HEADROOM = "headroom"  # less of the card is left free
    HOST_MEMORY = "host_memory"  # of a node, more than is known or usual
    CARD = "card"  # with more memory
    RESPONSE_LENGTH = "response_length"
    PROMPT_LENGTH = "prompt_length"


class Relaxation(Struct, frozen=True, kw_only=True):
    """One thing that would have to give for the setting that comes nearest to fit for certain."""

    kind: RelaxationKind
    value: Annotated[str, Meta(description="a share, GiB of a node, the name of a card, or tokens")]
    seconds: Annotated[float, Meta(description="of a step then, modelled")]
    gpu_hours: Annotated[float, Meta(description="of a step then")]


def relaxations(workload: Workload, headroom: float, cards: Sequence[Gpu]) -> tuple[Relaxation, ...]:
    """The nearest relaxation of each kind with which a setting fits for certain.

    Args:
        workload: the setting that comes nearest.
        headroom: share of the card that was to be left free.
        cards: that are larger, the smallest first.
    """
    return tuple(_priced(kind, value, job) for kind, value, job in _relaxed(workload, headroom, cards))


def larger_cards(own: Gpu, cards: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Cards of a vendor that have more memory than one of theirs, and are no slower kind, smallest first."""
    larger = (
        card
        for card in cards
        if card.vendor == own.vendor
        and card.capacity_bytes > own.capacity_bytes
        and card.memory_bytes_per_s >= _LEAST_SPEED * own.memory_bytes_per_s
    )
    return tuple(sorted(larger, key=lambda card: card.capacity_bytes))


def _priced(kind: RelaxationKind, value: str, job: Workload) -> Relaxation:
    seconds = CaseFigures(job).time.seconds
    return Relaxation(kind=kind, value=value, seconds=seconds, gpu_hours=step_gpu_hours(job, seconds))


def _relaxed(
    workload: Workload, headroom: float, cards: Sequence[Gpu]
) -> Iterator[tuple[RelaxationKind, str, Workload]]:
    least = _least_headroom(workload, headroom)
    if least is not None:
        yield RelaxationKind.HEADROOM, f"{least:.2f}", workload
    with_host = _with_host(workload, headroom)
    if with_host is not None:
        gibibytes = (with_host.cluster.host_memory_bytes or 0) // GIB
        yield RelaxationKind.HOST_MEMORY, str(gibibytes), with_host
    for gpu in cards:
        other = replace(workload, cluster=replace(workload.cluster, gpu=gpu))
        if _fits(other, headroom):
            yield RelaxationKind.CARD, gpu.name, other
            break
    for kind, quantity, name in (
        (RelaxationKind.RESPONSE_LENGTH, Quantity.MAX_RESPONSE_TOKENS, "max_response_tokens"),
        (RelaxationKind.PROMPT_LENGTH, Quantity.MAX_PROMPT_TOKENS, "max_prompt_tokens"),
    ):
        now = getattr(workload.batch, name)  # no prompts where a job learns from given sequences
        tokens = values_that_fit(workload, quantity).certain if now else None
        if tokens is not None and 0 < tokens < now:
            shorter = workload.with_batch(**{name: int(tokens), "engine_tokens": None})
            if _fits(shorter, 0.0):
                yield kind, str(int(tokens)), shorter


def _least_headroom(workload: Workload, headroom: float) -> float | None:
    """The largest share in hundredths that can be left free; None where it does not fit even without."""
    shares = (share / 100 for share in range(int(headroom * 100), -1, -1))
    return next((share for share in shares if share < headroom and _fits(workload, share)), None)


def _with_host(workload: Workload, headroom: float) -> Workload | None:
    """A job on nodes with as much host memory as it may take; None where that is not what is missing."""
    estimate = CaseFigures(workload).memory.estimate
    if not may_lack_host(estimate, workload.cluster.gpus_per_node):
        return None
    enough = ceil(estimate.host_high_bytes / GIB) * GIB
    larger = replace(workload, cluster=replace(workload.cluster, host_memory_bytes=enough))
    return larger if _fits(larger, headroom) else None


def _fits(workload: Workload, headroom: float) -> bool:
    return Judge(headroom).failing(workload, CaseFigures(workload)) is None
