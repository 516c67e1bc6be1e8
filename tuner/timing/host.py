"""Seconds that the host needs for a layer and for an optimizer's step, by the ranks of a machine.

They were measured beside some cards (``profiles/operators/<card>.json``). A host is no part of a card: those
of other cards take the reference's. With several ranks of a machine the host does more for each layer under
FSDP: collectives, copies in and out of their buffers, streams and events that wait for each other. And all
ranks wait for the slowest one. That is measured with two of them.
"""

from collections.abc import Mapping
from functools import lru_cache

from msgspec.structs import replace

from tuner.timing.measured_host import HostSeconds
from tuner.timing.operators import REFERENCE, operators_of

_WHOLE = ("forward_s", "forward_backward_s", "kept_s")
_HALVES = {
    "first_half_of_forward_backward_s": "forward_backward_s",
    "first_half_of_kept_s": "kept_s",
}


def host_card(gpu: str) -> str:
    """The card beside which the host of a card's machine was measured: itself, or the reference.

    Args:
        gpu: name of the card's profile.
    """
    return gpu if operators_of(gpu).gpu == gpu and operators_of(gpu).host else REFERENCE


@lru_cache(maxsize=64)
def host_seconds(gpu: str, engine: str, *, query_key_norms: bool, ranks: int) -> HostSeconds:
    """What the host needs for a layer: the mean over widths, which it does not depend on.

    Where several ranks were not measured beside a card, they take as much longer than one as beside the
    reference.

    Args:
        gpu: name of the card's profile.
        engine: plain, fsdp or fsdp2.
        query_key_norms: whether the layer has them.
        ranks: that share the model, or have one each.
    """
    several = ranks > 1
    beside, reference = (_layers(card, engine, query_key_norms) for card in (host_card(gpu), REFERENCE))
    if several in beside:
        return _with_halves(beside[several], reference[several])
    factors = {name: getattr(reference[True], name) / getattr(reference[False], name) for name in _WHOLE}
    return _with_halves(_scaled(beside[False], factors), reference[True])


@lru_cache(maxsize=16)
def _layers(card: str, engine: str, query_key_norms: bool) -> dict[bool, HostSeconds]:
    """The mean of what was measured beside a card, by whether there were several ranks."""
    measured: dict[bool, HostSeconds] = {}
    for several in (False, True):
        alike = [
            one
            for one in operators_of(card).host
            if (one.engine, one.query_key_norms, one.ranks > 1) == (engine, query_key_norms, several)
        ]
        if alike:
            told = [name for name in (*_WHOLE, *_HALVES) if getattr(alike[0], name) is not None]
            means = {name: sum(getattr(one, name) for one in alike) / len(alike) for name in told}
            measured[several] = replace(alike[0], **means)
    return measured


def _with_halves(host: HostSeconds, reference: HostSeconds) -> HostSeconds:
    """The same with the halves of its passes, the reference's shares where they were not told apart."""
    return replace(
        host,
        **{
            half: getattr(host, whole) * getattr(reference, half) / getattr(reference, whole)
            for half, whole in _HALVES.items()
            if getattr(host, half) is None
        },
    )


def _scaled(host: HostSeconds, factors: Mapping[str, float]) -> HostSeconds:
    """Each of the whole passes' seconds times a factor; the halves keep their shares."""
    scaled = {name: getattr(host, name) * factors[name] for name in _WHOLE}
    halves = {
        half: getattr(host, half) * factors[whole]
        for half, whole in _HALVES.items()
        if getattr(host, half) is not None
    }
    return replace(host, **scaled, **halves)


@lru_cache(maxsize=16)
def host_of_experts(gpu: str, *, grouped: bool, ranks: int) -> HostSeconds:
    """What routed experts add to that, all of them together where grouped, else each of them.

    Measured with one rank; several take as much longer as a plain layer takes with them.

    Args:
        gpu: name of the card's profile.
        grouped: whether experts run together.
        ranks: of the machine.
    """
    implementation = "grouped_mm" if grouped else "eager"
    measured = operators_of(host_card(gpu)).host_experts
    layer = next(one for one in measured if one.implementation == implementation)
    bare, beside = (host_seconds(gpu, "plain", query_key_norms=True, ranks=number) for number in (1, ranks))
    launched = 1 if grouped else layer.experts
    added = {
        name: max(0.0, getattr(layer, name) - getattr(bare, name)) / launched / getattr(bare, name)
        for name in _WHOLE
    }
    return _scaled(beside, added)


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
    reference = _tensors(REFERENCE, engine)
    return beside[False] * reference[True] / reference[False]


def _tensors(card: str, engine: str) -> dict[bool, float]:
    return {one.ranks > 1: one.tensor_s for one in operators_of(card).host_optimizer if one.engine == engine}
