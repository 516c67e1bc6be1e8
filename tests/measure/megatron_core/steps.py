"""One step of training with Megatron-Core, and what the allocator saw of it."""

import gc
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from measure.readings import device, reading


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the optimizer."""

    tokens: int
    micro_batches: int = 1


def with_gradient_buffers(model: Any) -> Any:
    """A model in Megatron's DistributedDataParallel, as verl configures it."""
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig

    options = DistributedDataParallelConfig(
        use_distributed_optimizer=True, grad_reduce_in_fp32=True, overlap_grad_reduce=False
    )
    return DistributedDataParallel(model.config, options, model)


def distributed_optimizer(wrapped: Any) -> Any:
    """Megatron's distributed Adam, as verl configures it; None without a GPU."""
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    if not torch.cuda.is_available():
        return None
    options = OptimizerConfig(
        optimizer="adam",
        lr=1e-6,
        bf16=True,
        params_dtype=torch.bfloat16,
        use_distributed_optimizer=True,
        clip_grad=1.0,
    )
    return get_megatron_optimizer(options, [wrapped])


def _forward_step(
    forward: list[list[int]], vocabulary: int, tokens: int, _: Any, model: Any
) -> tuple[Any, Any]:
    """The forward pass of one micro-batch, as Megatron's schedules call it."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary, (1, tokens), generator=generator).to(device())
    positions = torch.arange(tokens, device=device())[None]
    begin = reading().allocated_bytes
    losses = model(input_ids=ids, position_ids=positions, attention_mask=None, labels=ids)
    forward.append([begin, reading().allocated_bytes])

    def loss(output: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
        return output.float().mean(), {}

    return losses, loss


def run_step(model: Any, optimizer: Any, step: Step, vocabulary: int) -> dict[str, Any]:
    from megatron.core.pipeline_parallel import get_forward_backward_func

    model.zero_grad_buffer()
    if optimizer is not None:
        optimizer.zero_grad()
    reset()
    resident = reading().allocated_bytes
    forward: list[list[int]] = []
    get_forward_backward_func()(
        forward_step_func=partial(_forward_step, forward, vocabulary, step.tokens),
        data_iterator=None,
        model=[model],
        num_microbatches=step.micro_batches,
        seq_length=step.tokens,
        micro_batch_size=1,
        forward_only=False,
    )
    record = {
        **asdict(step),
        "resident_bytes": resident,
        "forward": forward,
        "peak_forward_backward_bytes": _peak(),
        "after_backward_bytes": reading().allocated_bytes,
    }
    reset()
    if optimizer is not None:
        updated, norm, _ = optimizer.step()
        if not (updated and norm < float("inf")):
            raise RuntimeError("the optimizer made no step")
    return {
        **record,
        "peak_optimizer_step_bytes": _peak(),
        "after_step_bytes": reading().allocated_bytes,
        "non_torch_bytes": reading().non_torch_bytes,
    }


def reset() -> None:
    """Leaves nothing in the caches, so that the next reading and peak are of tensors in use."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _peak() -> int:
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
