"""A model sharded as verl shards it, by FSDP2 or FSDP1, on the device with random weights.

Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``_build_fsdp_module``),
``utils/fsdp_utils.py`` (``apply_fsdp2``, ``_select_fsdp2_wrap_targets``, ``get_fsdp_wrap_policy``).
"""

from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.distributed.tensor import DTensor

from tuner.dtypes import DType
from tuner.validate.training.worker.model import fill, materialise
from tuner.workload import Backend, Engine


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's number format of this name."""
    torch_dtype: torch.dtype = getattr(torch, dtype.value)
    return torch_dtype


def shard(model: Any, engine: Engine, device: torch.device) -> nn.Module:
    """The model wrapped and on the device; ``model`` has its parameters on the meta device."""
    mesh = _mesh(engine, device)
    wrapped = _fsdp2 if engine.backend is Backend.FSDP2 else _fsdp1
    return wrapped(model, engine, mesh, device)


def _mesh(engine: Engine, device: torch.device) -> DeviceMesh:
    world, size = dist.get_world_size(), engine.parallel.shard
    if size >= world:
        return init_device_mesh(device.type, (world,), mesh_dim_names=("fsdp",))
    return init_device_mesh(device.type, (world // size, size), mesh_dim_names=("ddp", "fsdp"))


def _layer_classes(model: Any) -> set[type[nn.Module]]:
    names = set(model._no_split_modules)
    return {type(module) for module in model.modules() if type(module).__name__ in names}


def _fsdp2(model: nn.Module, engine: Engine, mesh: DeviceMesh, device: torch.device) -> nn.Module:
    options: dict[str, Any] = {
        "mesh": mesh,
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=torch_dtype(engine.compute_dtype),
            reduce_dtype=torch_dtype(engine.reduce_dtype),
            cast_forward_inputs=True,
        ),
        "reshard_after_forward": engine.reshard_after_forward,
    }
    if _offloads(engine, device):
        options["offload_policy"] = CPUOffloadPolicy()
    units = _units(model, engine)
    for unit in units:
        fully_shard(unit, **options)
    fully_shard(model, **options)
    if engine.forward_prefetch and engine.prefetch_effective:
        for unit, following in pairwise(units):
            unit.set_modules_to_forward_prefetch([following])
    materialise(model, torch.device("cpu") if engine.streamed_offload else device, _fill_local)
    if engine.streamed_offload:
        for buffer in model.buffers():
            buffer.data = buffer.data.to(device)
    return model


def _offloads(engine: Engine, device: torch.device) -> bool:
    """Whether weights are fetched from the host; on a CPU they are there as it is."""
    return engine.streamed_offload and device.type == "cuda"


def _units(model: Any, engine: Engine) -> list[Any]:
    """What is wrapped by itself, in the order of the model's modules, which is that of prefetching."""
    layers = tuple(_layer_classes(model))
    alone: set[nn.Module] = set()
    if not model.config.tie_word_embeddings:
        alone |= {module for module in model.modules() if isinstance(module, nn.Embedding)}
        head = getattr(model, "lm_head", None)
        if engine.separate_embedding_units and head is not None:
            alone.add(head)
    return [module for module in model.modules() if isinstance(module, layers) or module in alone]


def _fill_local(parameter: Tensor) -> None:
    fill(parameter.to_local() if isinstance(parameter, DTensor) else parameter)


def _fsdp1(model: Any, engine: Engine, mesh: DeviceMesh, device: torch.device) -> nn.Module:
    full, partly = (
        (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
        if engine.reshard_after_forward
        else (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)
    )
    return FullyShardedDataParallel(
        model,
        param_init_fn=partial(_initialise, device=device, made={}),
        auto_wrap_policy=partial(transformer_auto_wrap_policy, transformer_layer_cls=_layer_classes(model)),
        device_id=device,
        sharding_strategy=full if mesh.ndim == 1 else partly,
        mixed_precision=MixedPrecision(
            param_dtype=torch_dtype(engine.compute_dtype),
            reduce_dtype=torch_dtype(engine.reduce_dtype),
            buffer_dtype=torch.float32,
        ),
        device_mesh=mesh,
        forward_prefetch=engine.forward_prefetch,
        use_orig_params=False,
        cpu_offload=CPUOffload(offload_params=True) if _offloads(engine, device) else None,
    )


def _initialise(module: nn.Module, *, device: torch.device, made: dict[nn.Parameter, nn.Parameter]) -> None:
    """The parameters that a module has itself; FSDP1 calls this for one module after the other.

    ``made`` remembers them, so that modules which shared a parameter still do.
    """
    for name, parameter in module._parameters.items():
        if parameter is None or not parameter.is_meta:
            continue
        if parameter not in made:
            made[parameter] = nn.Parameter(
                torch.empty_like(parameter, device=device), parameter.requires_grad
            )
            fill(made[parameter])
        module._parameters[name] = made[parameter]


def to_host(model: nn.Module) -> None:
    """The stored weights to the host, as verl offloads them.

    Source: verl 0.9.1 ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu``).
    """
    _move(model, torch.device("cpu"))
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def to_device(model: nn.Module, device: torch.device) -> None:
    """The stored weights back to the device."""
    _move(model, device)


@torch.no_grad()
def _move(model: nn.Module, device: torch.device) -> None:
    if not isinstance(model, FullyShardedDataParallel):
        model.to(device, non_blocking=True)
        return
    for handle in model._all_handles:  # there from the first pass on
        handle.flat_param_to(device, non_blocking=True)  # type: ignore[no-untyped-call]
        handle.flat_param._local_shard = handle.flat_param.data
