"""The peak of saving a sharded and a whole state dict as verl's checkpoint manager does."""

import gc
import io
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from measure.readings import device
from measure.transients.decoder import Decoder, as_fsdp1, as_fsdp2, numbers_of, trained
from torch import nn

from tuner.memory.ledger.stated_terms import symbols_of
from tuner.memory.saving import (
    cloned_weight_bytes,
    divided_unit_bytes,
    gathered_optimizer_bytes,
    whole_unit_bytes,
)
from tuner.memory.weight_sync.transfer import gathered_tensor_bytes

WRAPPED: dict[str, Callable[[Decoder], nn.Module]] = {"fsdp1": as_fsdp1, "fsdp2": as_fsdp2}


class Nowhere(io.RawIOBase):
    """A file that keeps nothing."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return len(data)


def _save(what: Any) -> None:
    torch.save(what, io.BufferedWriter(Nowhere()))


def _shards(backend: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """``FSDPCheckpointManager.save_checkpoint``: shards of the model, then the optimizer."""
    if backend == "fsdp2":
        state = model.state_dict()
        _save(state)
        _save(optimizer.state_dict())
        return state
    from torch.distributed.fsdp import (
        FullyShardedDataParallel,
        ShardedOptimStateDictConfig,
        ShardedStateDictConfig,
        StateDictType,
    )

    configs = (ShardedStateDictConfig(offload_to_cpu=True), ShardedOptimStateDictConfig(offload_to_cpu=True))
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT, *configs):
        state = model.state_dict()
        _save(state)
        _save(optimizer.state_dict())
    return state


def _whole(backend: str, model: nn.Module) -> dict[str, Any]:
    """``get_fsdp_full_state_dict``: the whole model on the host of rank 0."""
    if backend == "fsdp2":
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        options = StateDictOptions(full_state_dict=True, cpu_offload=True, broadcast_from_rank0=False)
        return get_model_state_dict(model, options=options)
    from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType

    offload = torch.cuda.is_available()  # on the processor alone there is nowhere to go
    config = FullStateDictConfig(offload_to_cpu=offload, rank0_only=True)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
        return model.state_dict()


def _predicted(backend: str, content: str, numbers: dict[str, int]) -> int:
    """What the model of ``tuner`` says that saving adds on the card."""

    def of(size: Callable[..., int], **more: int) -> int:
        return size(**{symbol: (numbers | more)[symbol] for symbol in symbols_of(size)})

    if backend == "fsdp1" and numbers["W"] == 1:
        return of(cloned_weight_bytes, n_w=1 if content == "sharded" else 2)
    if backend == "fsdp1":
        return of(divided_unit_bytes) if content == "sharded" else of(whole_unit_bytes)
    return 0 if content == "sharded" or numbers["W"] == 1 else of(gathered_tensor_bytes)


def probe_saving(backend: str) -> list[dict[str, Any]]:
    """Shards, then the whole model while the shards' state dict is still held, as verl holds it."""
    warnings.simplefilter("ignore")
    model = Decoder()
    numbers = dict(numbers_of(model, dist.get_world_size()))
    wrapped = WRAPPED[backend](model)
    optimizer = trained(wrapped)
    found, held = [], []
    for content, save in (
        ("sharded", partial(_shards, backend, wrapped, optimizer)),
        ("whole", partial(_whole, backend, wrapped)),
    ):
        before, peak = _peak_of(save, held)
        predicted = _predicted(backend, content, numbers)
        found.append(_judged(f"{backend} {content}", before, predicted, peak) | {"numbers": numbers})
    return found


def probe_gathered_optimizer() -> list[dict[str, Any]]:
    """What Megatron-Core gathers of an optimizer on every rank, for one buffer, as its code does."""
    ranks = dist.get_world_size()
    size = (64 * 2**20 if torch.cuda.is_available() else 2**10) // ranks * ranks
    local = {key: torch.zeros(size // ranks) for key in ("param", "exp_avg", "exp_avg_sq")}
    world = {key: torch.zeros(size) for key in local}

    def gather() -> None:
        for key, send in local.items():
            received = [torch.zeros(size // ranks, device=device()) for _ in range(ranks)]
            sent = send.to(device())
            dist.all_gather(received, sent)
            del sent
            received = [part.cpu() for part in received]
            world[key].copy_(torch.cat(received))

    dist.barrier()
    before, peak = _peak_of(gather, [])
    predicted = gathered_optimizer_bytes(g=1, N_b=size, R_b=ranks)
    return [_judged("gathered optimizer", before, predicted, peak) | {"numbers": {"N_b": size, "R_b": ranks}}]


def _peak_of(action: Callable[[], Any], held: list[Any]) -> tuple[int, int]:
    """Bytes allocated before an action, and at its peak; its result is held from then on."""
    gc.collect()
    if not torch.cuda.is_available():
        held.append(action())
        return 0, 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = int(torch.cuda.memory_allocated()) - _on_card(held)
    held.append(action())
    torch.cuda.synchronize()
    return before, int(torch.cuda.max_memory_allocated())


def _on_card(held: list[Any]) -> int:
    """Bytes on the card of state dicts that are still held: saving added them."""
    tensors = (tensor for state in held if isinstance(state, dict) for tensor in state.values())
    plain = [tensor for tensor in tensors if type(tensor) is torch.Tensor and tensor.is_cuda]
    return sum(tensor.nbytes for tensor in plain)


def _judged(name: str, before: int, predicted: int, peak: int) -> dict[str, Any]:
    """Predicted and measured, both of the peak with what was there before."""
    total = before + predicted
    return {
        "case": name,
        "gpus": dist.get_world_size(),
        "before_bytes": before,
        "predicted_added_bytes": predicted,
        "measured_added_bytes": peak - before if peak else 0,
        "predicted_peak_bytes": total if peak else 0,
        "measured_peak_bytes": peak,
        "error_percent": round(100 * (total - peak) / peak, 3) if peak else None,
    }
