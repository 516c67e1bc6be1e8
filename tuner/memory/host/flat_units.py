r"""Pinned memory of FSDP1's units, to the byte: the shard of a unit is one tensor.

PyTorch hands pinned memory out in powers of two. FSDP2 has a tensor for each matrix, of which only bounds are
known, see :mod:`tuner.memory.host.node`.
"""

from math import ceil

from tuner.memory.fsdp.states import trained_parameters
from tuner.memory.fsdp.units import root_parameters
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine

SYMBOLS = {
    "B_l": "bytes of the shard of a layer, rounded up to a power of two",
    "B_r": "bytes of the shard of the root unit, rounded up to a power of two",
    "n_s": "tensors of that size: one of weights, two with gradients, two of moments",
    "n_u": "layers, each of which is a unit",
}


def units_on_host_bytes(*, G: int, n_s: int, B_r: int, n_u: int, B_l: int) -> int:
    """Shards of FSDP1's units that wait on the host, or are streamed from it.

    A streamed unit gets a gradient when it is used for the first time, whether it is trained or not.

    Source: verl 0.9.1 ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu``, ``offload_fsdp_optimizer``:
    ``to("cpu", non_blocking=True)``); torch ``distributed/fsdp/_flat_param.py``
    (``init_flat_param_attributes``: ``_local_shard``, ``_cpu_grad``), ``ATen/core/CachingHostAllocator.h``.
    """
    return G * n_s * (B_r + n_u * B_l)


def unit_numbers(
    model: ModelShape, engine: Engine, *, gpus: int, sets: int, number_bytes: int
) -> dict[str, float] | None:
    """The symbols of a node's units; None where they are not the root and layers that are all alike.

    Args:
        model: that is sharded.
        engine: that shards it.
        gpus: of the node.
        sets: tensors of a shard's size.
        number_bytes: of one of their numbers.
    """
    root, layer = root_parameters(model, engine), model.largest_layer_parameters
    flat = engine.backend is Backend.FSDP and engine.lora is None
    if not flat or root + model.layers * layer != model.parameters:
        return None
    if trained_parameters(model, engine) != model.parameters:
        return None

    def rounded(parameters: int) -> int:
        size = number_bytes * ceil(parameters / engine.parallel.shard)
        return int(1 << (size - 1).bit_length())

    return {"G": gpus, "n_s": sets, "B_r": rounded(root), "n_u": model.layers, "B_l": rounded(layer)}
