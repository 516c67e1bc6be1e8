"""Why nothing fits: what fails in every setting, and what would have to give for the nearest one to fit."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.enumeration import Enum
from tuner.hardware import Gpu
from tuner.memory.fitting.limits import values_that_fit
from tuner.plan.judge import Judge
from tuner.rules.case import CaseFigures
from tuner.workload import Quantity, Workload


class RelaxationKind(Enum):
    """What gives."""

    HEADROOM = "headroom"  # less of the card is left free
    CARD = "card"  # with more memory
    RESPONSE_LENGTH = "response_length"
    PROMPT_LENGTH = "prompt_length"


class Relaxation(Struct, frozen=True, kw_only=True):
    """One thing that would have to give for the setting that comes nearest to fit for certain."""

    kind: RelaxationKind
    value: Annotated[str, Meta(description="a share, the name of a card, or tokens")]
    seconds: Annotated[float, Meta(description="of a step then, modelled")]
    gpu_hours: Annotated[float, Meta(description="of a step then")]


def relaxations(workload: Workload, headroom: float, cards: Sequence[Gpu]) -> tuple[Relaxation, ...]:
    """The nearest relaxation of each kind with which a setting fits for certain.

    Args:
        workload: the setting that comes nearest.
        headroom: share of the card that was to be left free.
        cards: others that there are.
    """
    return tuple(
        Relaxation(
            kind=kind,
            value=value,
            seconds=CaseFigures(job).time.seconds,
            gpu_hours=CaseFigures(job).time.seconds * job.cluster.gpus / 3600,
        )
        for kind, value, job in _relaxed(workload, headroom, cards)
    )


def _relaxed(
    workload: Workload, headroom: float, cards: Sequence[Gpu]
) -> Iterator[tuple[RelaxationKind, str, Workload]]:
    least = _least_headroom(workload, headroom)
    if least is not None:
        yield RelaxationKind.HEADROOM, f"{least:.2f}", workload
    for gpu in sorted(cards, key=lambda card: card.memory_bytes):
        other = replace(workload, cluster=replace(workload.cluster, gpu=gpu))
        larger = gpu.capacity_bytes > workload.cluster.gpu.capacity_bytes
        if larger and gpu.vendor == workload.cluster.gpu.vendor and _fits(other, headroom):
            yield RelaxationKind.CARD, gpu.name, other
            break
    for kind, quantity, name in (
        (RelaxationKind.RESPONSE_LENGTH, Quantity.MAX_RESPONSE_TOKENS, "max_response_tokens"),
        (RelaxationKind.PROMPT_LENGTH, Quantity.MAX_PROMPT_TOKENS, "max_prompt_tokens"),
    ):
        tokens = values_that_fit(workload, quantity).certain
        if tokens:
            shorter = workload.with_batch(**{name: int(tokens), "engine_tokens": None})
            if _fits(shorter, 0.0):
                yield kind, str(int(tokens)), shorter


def _least_headroom(workload: Workload, headroom: float) -> float | None:
    """The largest share in hundredths that can be left free; None where it does not fit even without."""
    shares = (share / 100 for share in range(int(headroom * 100), -1, -1))
    return next((share for share in shares if share < headroom and _fits(workload, share)), None)


def _fits(workload: Workload, headroom: float) -> bool:
    return Judge(headroom).failing(workload, CaseFigures(workload)) is None
