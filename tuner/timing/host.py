"""Seconds that the host needs for a layer and for an optimizer's step, by the ranks of a machine.

They were measured beside some cards (``profiles/operators/<card>.json``). A host is no part of a card: those
of other cards take the one beside the H200. With several ranks of a machine the host does more for each layer
under FSDP: collectives, copies in and out of their buffers, streams and events that wait for each other. And
all ranks wait for the slowest one. That is measured with two of them.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec import Struct

from tuner.hardware import Gpu
from tuner.timing import assumptions as assume
from tuner.timing.corrections import Family, correction
from tuner.timing.operators import operators_of, table_card

#: The card whose host stands for those of cards beside which none was measured: nothing disturbed its rows.
HOST = "h200-sxm"

#: The card beside which several ranks were measured.
SHARED = "h100-sxm"

#: The card beside which layers with experts and plain ones were measured on one day, and nothing else ran.
EXPERTS = "h200-sxm"


class LayerSeconds(Struct, frozen=True, kw_only=True):
    """What the host needs to launch one layer, by what kind of pass it is part of."""

    forward_s: float  # without gradients
    recomputed_s: float  # forward and backward, with recomputation
    recomputed_forward_s: float  # of that, the forward half
    kept_s: float  # forward and backward without recomputation
    kept_forward_s: float

    def half(self, *, recomputes: bool, backward: bool) -> float:
        """Seconds of one direction of a pass that trains.

        Args:
            recomputes: whether the layer is recomputed in the backward half.
            backward: whether it is that half.
        """
        first = self.recomputed_forward_s if recomputes else self.kept_forward_s
        return (self.recomputed_s if recomputes else self.kept_s) - first if backward else first

    def times(self, factors: "LayerSeconds") -> "LayerSeconds":
        """Each of the seconds times another's, which is a factor."""
        return _each(lambda seconds, factor: seconds * factor, self, factors)

    def over(self, other: "LayerSeconds") -> "LayerSeconds":
        """Each of the seconds over another's."""
        return _each(lambda seconds, unit: seconds / unit, self, other)


_FIELDS = LayerSeconds.__struct_fields__


def _each(operation: Callable[..., float], *operands: LayerSeconds) -> LayerSeconds:
    return LayerSeconds(**{name: operation(*(getattr(one, name) for one in operands)) for name in _FIELDS})


def host_card(gpu: str) -> str:
    """The card beside which the host of a card's machine was measured: itself, or the H200.

    Args:
        gpu: name of the card's profile.
    """
    return gpu if table_card(gpu) == gpu and operators_of(gpu).host else HOST


@lru_cache(maxsize=64)
def host_seconds(gpu: str, engine: str, *, query_key_norms: bool, ranks: int) -> LayerSeconds:
    """What the host needs for a layer: the mean over widths, which it does not depend on.

    Where several ranks were not measured beside a card, they take as much longer than one as beside
    the H100. Where layers with norms of queries and keys were not, they take as much longer than others
    as they have more kernels, and hooks take what they take.

    Args:
        gpu: name of the card's profile.
        engine: plain, fsdp or fsdp2.
        query_key_norms: whether the layer has them.
        ranks: that share the model, or have one each.
    """
    card, several = host_card(gpu), ranks > 1
    measured = _measured(card, engine, query_key_norms=query_key_norms, several=several)
    if measured is not None:
        return measured
    if several and card != SHARED:
        alone = host_seconds(card, engine, query_key_norms=query_key_norms, ranks=1)
        there = [host_seconds(SHARED, engine, query_key_norms=query_key_norms, ranks=n) for n in (1, 2)]
        return alone.times(there[1].over(there[0]))
    bare, plain = (host_seconds(card, name, query_key_norms=False, ranks=ranks) for name in (engine, "plain"))
    more = 2 * assume.NORM_KERNELS / assume.LAYER_KERNELS
    return _each(lambda seconds, kernels: seconds + more * kernels, bare, plain)


def _measured(card: str, engine: str, *, query_key_norms: bool, several: bool) -> LayerSeconds | None:
    """The mean of what was measured beside a card; None where nothing was.

    What recomputation takes where it was disturbed, and the halves of passes where they were not told apart,
    follow from those of one rank, beside the card or the H100.
    """
    kind = (engine, query_key_norms, several)
    alike = [
        one for one in operators_of(card).host if (one.engine, one.query_key_norms, one.ranks > 1) == kind
    ]
    if not alike:
        return None
    forward, kept, recomputed, kept_half, recomputed_half = (
        _mean([getattr(one, name) for one in alike])
        for name in (
            "forward_s",
            "kept_s",
            "forward_backward_s",
            "first_half_of_kept_s",
            "first_half_of_forward_backward_s",
        )
    )
    assert forward is not None
    assert kept is not None
    if recomputed is None or recomputed_half is None or kept_half is None:
        like = host_seconds(card if several else SHARED, engine, query_key_norms=query_key_norms, ranks=1)
        recomputed = recomputed or like.recomputed_s * kept / like.kept_s
        recomputed_half = recomputed_half or recomputed * like.recomputed_forward_s / like.recomputed_s
        kept_half = kept_half or kept * like.kept_forward_s / like.kept_s
    return LayerSeconds(
        forward_s=forward,
        recomputed_s=recomputed,
        recomputed_forward_s=recomputed_half,
        kept_s=kept,
        kept_forward_s=kept_half,
    )


def _mean(seconds: Sequence[float | None]) -> float | None:
    told = [one for one in seconds if one is not None]
    return sum(told) / len(told) if told else None


def engine_launch_seconds(gpu: Gpu) -> float:
    """Seconds between two kernels that the Python of a rollout engine launches.

    Where the host was measured, as much more or less as it took for a layer of the trainer than the one
    beside the H200.
    """
    if gpu.measured is None or gpu.measured.host_factor is None:
        return assume.ENGINE_LAUNCH_S
    here, typical = (
        host_seconds(card, "plain", query_key_norms=False, ranks=1).forward_s for card in (gpu.name, HOST)
    )
    return assume.ENGINE_LAUNCH_S * here / typical / correction(gpu, Family.HOST)


@lru_cache(maxsize=16)
def host_of_experts(gpu: str, *, grouped: bool, ranks: int) -> LayerSeconds:
    """What routed experts add to that, all of them together where grouped, else each of them.

    By what they added to a plain layer of one rank beside the H200, over what that layer took there. Forward
    halves of passes that train were not told apart: they grow as forward passes without gradients do.

    Args:
        gpu: name of the card's profile.
        grouped: whether experts run together.
        ranks: of the machine.
    """
    implementation = "grouped_mm" if grouped else "eager"
    layer = next(one for one in operators_of(EXPERTS).host_experts if one.implementation == implementation)
    bare = host_seconds(EXPERTS, "plain", query_key_norms=True, ranks=1)
    forward = layer.forward_s / bare.forward_s
    with_experts = LayerSeconds(
        forward_s=layer.forward_s,
        recomputed_s=layer.forward_backward_s,
        recomputed_forward_s=forward * bare.recomputed_forward_s,
        kept_s=layer.kept_s,
        kept_forward_s=forward * bare.kept_forward_s,
    )
    launched = 1 if grouped else layer.experts
    added = _each(lambda whole, plain: max(0.0, whole / plain - 1) / launched, with_experts, bare)
    return host_seconds(gpu, "plain", query_key_norms=True, ranks=ranks).times(added)


@lru_cache(maxsize=16)
def host_of_optimizer(gpu: str, engine: str, *, ranks: int) -> float:
    """Seconds on the host of clipping and stepping one tensor.

    Args:
        gpu: name of the card's profile.
        engine: plain or fsdp2.
        ranks: that share the tensors.
    """
    several = ranks > 1
    beside = _tensors(host_card(gpu), engine)
    if several in beside:
        return beside[several]
    reference = _tensors(SHARED, engine)
    return beside[False] * reference[True] / reference[False]


def _tensors(card: str, engine: str) -> dict[bool, float]:
    return {one.ranks > 1: one.tensor_s for one in operators_of(card).host_optimizer if one.engine == engine}
