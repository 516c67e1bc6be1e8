"""What adapters cost the host in each layer: kernels of their own and, under FSDP1, units of their own.

Under FSDP1 verl makes a unit of every matrix of an adapter, since a unit's parameters learn together or not
at all, and the layer's own are frozen. Each of them is gathered and let go around its product, again where a
layer is recomputed, and before its gradient, which is reduced by itself: the same calls as for a whole layer.
FSDP2's units are the layers alone. A pass with the adapters switched off calls none of them.

Sources: verl 0.4.1 to 0.9.1 ``utils/fsdp_utils.py`` (``get_fsdp_wrap_policy``, ``is_lora``; 0.9.1
``_select_fsdp2_wrap_targets``); torch ``distributed/fsdp/_runtime_utils.py`` (``_pre_forward``,
``_post_forward``, ``_pre_backward_hook``, ``_post_backward_hook``).
"""

from functools import lru_cache

from msgspec import Struct

from tuner.timing import assumptions as assume
from tuner.timing.host import LayerSeconds, host_seconds
from tuner.workload import Backend, Lora


class UnitSeconds(Struct, frozen=True, kw_only=True):
    """What the host needs for one unit of FSDP1 that holds one tensor, whatever its size."""

    forward: float  # with gradients to come or without: the same is gathered and let go
    backward: float

    def of(self, *, recomputes: bool, backward: bool) -> float:
        """Seconds of one direction of a pass.

        Args:
            recomputes: whether the backward direction begins with the forward pass once more.
            backward: whether that direction is asked for.
        """
        if not backward:
            return self.forward
        return self.backward + (self.forward if recomputes else 0.0)


def units_of_a_layer(lora: Lora | None, backend: Backend, layers: int) -> float:
    """Units of FSDP1 that the adapters of one layer are; 0 without any, and under another engine."""
    return 0.0 if lora is None or backend is not Backend.FSDP else lora.matrices / layers


def kernels_of_a_layer(lora: Lora | None, layers: int) -> float:
    """Kernels of one layer's adapters, forward."""
    return 0.0 if lora is None else lora.matrices / layers * assume.ADAPTER_MATRIX_KERNELS


@lru_cache(maxsize=16)
def unit_seconds(gpu: str, *, ranks: int) -> UnitSeconds:
    """One unit of a single tensor: its share of what FSDP1 adds to a layer, which is one unit of many.

    Layers with norms of queries and keys and without tell the same, and so do forward passes with gradients
    and without: the mean of all is taken, since hosts are not equally fast for long.

    Args:
        gpu: name of the card's profile.
        ranks: that share the model.
    """
    kinds = [_added(gpu, ranks, query_key_norms=norms) for norms in (False, True)]
    forward = sum(alone + graph for alone, graph, _ in kinds) / (2 * len(kinds))
    backward = sum(seconds for *_, seconds in kinds) / len(kinds)
    share = assume.SINGLE_TENSOR_UNIT
    return UnitSeconds(forward=share * forward, backward=share * backward)


def _added(gpu: str, ranks: int, *, query_key_norms: bool) -> tuple[float, float, float]:
    """What FSDP1 adds to a layer forward without gradients, forward with them, and backward."""
    hooked, plain = (
        _directions(host_seconds(gpu, engine, query_key_norms=query_key_norms, ranks=ranks))
        for engine in ("fsdp", "plain")
    )
    alone, forward, backward = (max(0.0, more - less) for more, less in zip(hooked, plain, strict=True))
    return alone, forward, backward


def _directions(host: LayerSeconds) -> tuple[float, float, float]:
    return host.forward_s, host.kept_forward_s, host.kept_s - host.kept_forward_s
