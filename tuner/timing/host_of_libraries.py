"""Seconds that the host needs for a layer of another library, by what a plain one of transformers takes.

Megatron-Core's modules and Liger's functions launch fewer kernels than transformers does, and run more Python
for each: both were held against a plain layer on the processor, where Python runs as it does beside a GPU.
"""

from functools import lru_cache

from tuner.timing import assumptions as assume
from tuner.timing.host import LayerSeconds, host_seconds

_MEGATRON = LayerSeconds(
    forward_s=assume.MEGATRON_FORWARD,
    recomputed_s=assume.MEGATRON_RECOMPUTED,
    recomputed_forward_s=assume.MEGATRON_RECOMPUTED_FORWARD,
    kept_s=assume.MEGATRON_KEPT,
    kept_forward_s=assume.MEGATRON_KEPT_FORWARD,
)

_LIGER = LayerSeconds(
    forward_s=assume.LIGER_FORWARD,
    recomputed_s=assume.LIGER_RECOMPUTED,
    recomputed_forward_s=assume.LIGER_RECOMPUTED_FORWARD,
    kept_s=assume.LIGER_KEPT,
    kept_forward_s=assume.LIGER_KEPT_FORWARD,
)


@lru_cache(maxsize=64)
def host_of_megatron(gpu: str, *, query_key_norms: bool, ranks: int) -> LayerSeconds:
    """What the host needs for a layer of Megatron-Core: more than for a plain one, of fewer kernels.

    Args:
        gpu: name of the card's profile.
        query_key_norms: whether the layer has them.
        ranks: of the machine.
    """
    return host_seconds(gpu, "plain", query_key_norms=query_key_norms, ranks=ranks).times(_MEGATRON)


@lru_cache(maxsize=64)
def host_of_liger(gpu: str, *, query_key_norms: bool, ranks: int) -> LayerSeconds:
    """What the host needs for a layer with Liger's functions: as much as for a plain one, less backward.

    Args:
        gpu: name of the card's profile.
        query_key_norms: whether the layer has them.
        ranks: of the machine.
    """
    return host_seconds(gpu, "plain", query_key_norms=query_key_norms, ranks=ranks).times(_LIGER)
