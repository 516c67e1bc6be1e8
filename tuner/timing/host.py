"""Seconds that the host needs for a layer and for an optimizer's step, by the ranks of a machine.

They were measured beside some cards (``profiles/operators/<card>.json``), on several machines with each:
hosts of one kind differ by half and more, and their mean is taken as typical. A host is no part of a card:
those of other cards take the ones beside the H200. With several ranks of a machine the host does more for
each layer under FSDP: collectives, copies in and out of their buffers, streams and events that wait for each
other. And all ranks wait for the slowest one. That is measured with two of them.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec import Struct

from tuner.hardware import Gpu
from tuner.timing import assumptions as assume
from tuner.timing.corrections import OperatorFamily, correction
from tuner.timing.operators import HostMachine, operators_of, table_card

#: The card whose hosts stand for those of cards beside which none was measured.
HOST = "h200-sxm"

#: The cards beside which layers with experts and plain ones were measured on the same machines.
EXPERTS = ("h100-sxm", "h200-sxm")


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
        """Multiplies the seconds one by one with another's, which are factors."""
        return _by_field(lambda seconds, factor: seconds * factor, self, factors)

    def over(self, other: "LayerSeconds") -> "LayerSeconds":
        """Divides the seconds one by one by another's."""
        return _by_field(lambda seconds, unit: seconds / unit, self, other)


_FIELDS = LayerSeconds.__struct_fields__


def _by_field(operation: Callable[..., float], *operands: LayerSeconds) -> LayerSeconds:
    return LayerSeconds(**{name: operation(*(getattr(one, name) for one in operands)) for name in _FIELDS})


def host_card(gpu: str) -> str:
    """The card beside which the host of a card's machine was measured: itself, or the H200.

    Args:
        gpu: name of the card's profile.
    """
    return gpu if table_card(gpu) == gpu and operators_of(gpu).host else HOST


@lru_cache(maxsize=64)
def host_seconds(gpu: str, engine: str, *, query_key_norms: bool, ranks: int) -> LayerSeconds:
    """What the host needs for a layer: the mean over machines, and over widths, which it does not depend on.

    Several ranks take no less than one, whatever machines they were measured on. Where they were not measured
    beside a card, they take as much longer than one as beside the H200.

    Args:
        gpu: name of the card's profile.
        engine: plain, fsdp or fsdp2.
        query_key_norms: whether the layer has them.
        ranks: that share the model, or have one each.
    """
    card, several = host_card(gpu), ranks > 1
    seconds = _measured_seconds(card, engine, query_key_norms=query_key_norms, several=several)
    if not several:
        return seconds or host_seconds(HOST, engine, query_key_norms=query_key_norms, ranks=1)
    alone = host_seconds(card, engine, query_key_norms=query_key_norms, ranks=1)
    if seconds is None:
        there = [host_seconds(HOST, engine, query_key_norms=query_key_norms, ranks=n) for n in (1, 2)]
        seconds = alone.times(there[1].over(there[0]))
    return _by_field(max, seconds, alone)


def _measured_seconds(card: str, engine: str, *, query_key_norms: bool, several: bool) -> LayerSeconds | None:
    """What the machines of a card told; None where they do not tell all of a layer."""
    forward, recomputed, uncheckpointed = (
        _mean(_on_machines(card, engine, name, query_key_norms=query_key_norms, several=several))
        for name in ("forward_s", "forward_backward_s", "kept_s")
    )
    if forward is None or recomputed is None or uncheckpointed is None:
        assert card != HOST, "no machine told it"
        return None
    halves = [
        _first_half(card, engine, whole, query_key_norms=query_key_norms, several=several)
        for whole in ("forward_backward_s", "kept_s")
    ]
    return LayerSeconds(
        forward_s=forward,
        recomputed_s=recomputed,
        recomputed_forward_s=recomputed * halves[0],
        kept_s=uncheckpointed,
        kept_forward_s=uncheckpointed * halves[1],
    )


def _on_machines(
    card: str, engine: str, name: str, *, query_key_norms: bool, several: bool
) -> list[float | None]:
    """What one column of the tables says of a layer: for each machine the mean over widths, None without any.

    Where layers with norms of queries and keys were not measured, they take as much longer than others as
    they have more kernels, and hooks take what they take.
    """
    return [
        _on_machine(machine, engine, name, query_key_norms=query_key_norms, several=several)
        for machine in operators_of(card).machines
    ]


def _on_machine(
    machine: HostMachine, engine: str, name: str, *, query_key_norms: bool, several: bool
) -> float | None:
    kind = (engine, query_key_norms, several)
    rows = [one for one in machine.host if (one.engine, one.query_key_norms, one.ranks > 1) == kind]
    if rows or not query_key_norms:
        return _mean([getattr(row, name) for row in rows])
    bare, plain = (
        _on_machine(machine, other, name, query_key_norms=False, several=several)
        for other in (engine, "plain")
    )
    if bare is None or plain is None:
        return None
    return bare + 2 * assume.NORM_KERNELS / assume.LAYER_KERNELS * plain


def _first_half(card: str, engine: str, whole: str, *, query_key_norms: bool, several: bool) -> float:
    """The forward half's share of a column.

    Where no machine tells it, that of layers without norms, then of one rank, then beside the H200.
    """
    parts, wholes = (
        _on_machines(card, engine, name, query_key_norms=query_key_norms, several=several)
        for name in (f"first_half_of_{whole}", whole)
    )
    share = _mean([_share(part, other) for part, other in zip(parts, wholes, strict=True)])
    if share is not None:
        return share
    if query_key_norms:
        return _first_half(card, engine, whole, query_key_norms=False, several=several)
    if several:
        return _first_half(card, engine, whole, query_key_norms=False, several=False)
    assert card != HOST, "no machine told it"
    return _first_half(HOST, engine, whole, query_key_norms=False, several=False)


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or whole is None else part / whole


def _mean(seconds: Sequence[float | None]) -> float | None:
    numbers = [one for one in seconds if one is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _known_mean(seconds: Sequence[float | None]) -> float:
    """The mean of what some machine told."""
    mean = _mean(seconds)
    assert mean is not None, "no machine told it"
    return mean


def engine_launch_seconds(gpu: Gpu, *, compiled: bool) -> float:
    """Seconds between two kernels that the Python of a rollout engine launches.

    Where the host was measured, as much more or less as it took for a layer of the trainer than those beside
    the H200 do.

    Args:
        gpu: beside the host.
        compiled: whether the engine has compiled the model, so that less Python lies between them.
    """
    typical = assume.COMPILED_LAUNCH_S if compiled else assume.ENGINE_LAUNCH_S
    if gpu.measured is None or gpu.measured.host_factor is None:
        return typical
    here, there = (
        host_seconds(card, "plain", query_key_norms=False, ranks=1).forward_s for card in (gpu.name, HOST)
    )
    return typical * here / there / correction(gpu, OperatorFamily.HOST)


@lru_cache(maxsize=16)
def host_of_experts(gpu: str, *, grouped: bool, ranks: int) -> LayerSeconds:
    """What routed experts add to that, all of them together where grouped, else each of them.

    By what they added to a plain layer of the same machine, over what that layer took: the mean of machines.

    Args:
        gpu: name of the card's profile.
        grouped: whether experts run together.
        ranks: of the machine.
    """
    implementation = "grouped_mm" if grouped else "eager"
    machines = [machine for card in EXPERTS for machine in operators_of(card).machines]

    def added_to(name: str) -> float:
        return _known_mean([_added(machine, implementation, name) for machine in machines])

    added = LayerSeconds(
        forward_s=added_to("forward_s"),
        recomputed_s=added_to("forward_backward_s"),
        recomputed_forward_s=added_to("first_half_of_forward_backward_s"),
        kept_s=added_to("kept_s"),
        kept_forward_s=added_to("first_half_of_kept_s"),
    )
    return host_seconds(gpu, "plain", query_key_norms=True, ranks=ranks).times(added)


def _added(machine: HostMachine, implementation: str, name: str) -> float | None:
    """What experts of this kind added to a plain layer of a machine, over what that took; None untold.

    Of all experts where they run together, else of each.
    """
    added = []
    for layer in machine.host_experts:
        plain = _on_machine(machine, "plain", name, query_key_norms=True, several=layer.ranks > 1)
        whole: float | None = getattr(layer, name)
        if layer.implementation == implementation and plain is not None and whole is not None:
            launched = 1 if implementation == "grouped_mm" else layer.experts
            added.append(max(0.0, whole / plain - 1) / launched)
    return _mean(added)


@lru_cache(maxsize=16)
def host_of_optimizer(gpu: str, engine: str, *, ranks: int) -> float:
    """Seconds on the host of clipping and stepping one tensor.

    Args:
        gpu: name of the card's profile.
        engine: plain or fsdp2.
        ranks: that share the tensors.
    """
    card, several = host_card(gpu), ranks > 1
    seconds = _mean([_of_tensor(machine, engine, several) for machine in operators_of(card).machines])
    if not several:
        return seconds or host_of_optimizer(HOST, engine, ranks=1)
    alone = host_of_optimizer(card, engine, ranks=1)
    if seconds is None:
        seconds = alone * host_of_optimizer(HOST, engine, ranks=2) / host_of_optimizer(HOST, engine, ranks=1)
    return max(seconds, alone)


def _of_tensor(machine: HostMachine, engine: str, several: bool) -> float | None:
    rows = [one for one in machine.host_optimizer if (one.engine, one.ranks > 1) == (engine, several)]
    return _mean([one.tensor_s for one in rows])
