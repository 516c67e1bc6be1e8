"""What is done on a GPU to see what it costs beside a job's tensors."""

import os
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from measure.readings import Log, device, reading

MIB = 2**20


def probe_process() -> list[dict[str, Any]]:
    """One process without any communication."""
    log = Log()
    one = torch.ones(1, device=device())
    log.read("context and one tensor")
    one = (one * 2 + 1).exp()
    torch.randn(1024, device=device()).softmax(-1)
    log.read("elementwise kernels")
    left = torch.randn(1024, 1024, device=device(), dtype=torch.bfloat16)
    left @ left
    log.read("matrix product in bf16")
    bias = torch.randn(1024, device=device(), dtype=torch.bfloat16)
    F.linear(left, left, bias)
    log.read("matrix product with bias (cuBLASLt)")
    left.float() @ left.float()
    log.read("matrix product in fp32")
    weights = [torch.randn(1024, 1024, device=device(), requires_grad=True) for _ in range(4)]
    hidden = left
    for weight in weights:
        hidden = F.silu(F.linear(hidden, weight.bfloat16()))
    hidden.float().sum().backward()
    log.read("backward pass")
    states = torch.randn(1, 8, 1024, 64, device=device(), dtype=torch.bfloat16, requires_grad=True)
    F.scaled_dot_product_attention(states, states, states, is_causal=True).sum().backward()
    log.read("flash attention and its backward pass")
    torch.optim.AdamW(weights).step()
    log.read("AdamW")
    return log.steps


def probe_communicators() -> list[dict[str, Any]]:
    """One process of a job with NCCL, operation by operation."""
    log = Log()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    block = torch.ones(ranks * 8 * MIB, device=device(), dtype=torch.bfloat16)
    gathered = torch.ones(ranks * len(block), device=device(), dtype=torch.bfloat16)
    (block[:4096].view(64, 64) @ block[:4096].view(64, 64)).sum()
    log.read("context, tensors and a matrix product")
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=60))
    log.read("init_process_group")
    dist.all_reduce(block[:1])
    log.read("first all_reduce (1 element)")
    dist.all_reduce(block)
    log.read(f"all_reduce ({2 * len(block) // MIB} MiB)")
    dist.all_gather_into_tensor(gathered, block)
    log.read("all_gather")
    if torch.cuda.is_available():
        dist.reduce_scatter_tensor(block, gathered)
        log.read("reduce_scatter")
        dist.all_to_all_single(gathered[: len(block)], block)
        log.read("all_to_all")
    dist.broadcast(block, src=0)
    log.read("broadcast")
    if ranks > 1:
        _exchange_with_neighbours(block, rank, ranks)
        log.read("send and receive with both neighbours")
    second = dist.new_group()
    log.read("second group of all ranks")
    dist.all_reduce(block[:1], group=second)
    log.read("its first all_reduce (1 element)")
    dist.all_gather_into_tensor(gathered, block, group=second)
    log.read("its all_gather")
    if ranks > 2:
        pairs, _ = dist.new_subgroups(2)
        dist.all_gather_into_tensor(gathered[: 2 * len(block)], block, group=pairs)
        log.read("all_gather of a group of two ranks")
    third = dist.new_group()
    dist.barrier(group=third)
    log.read("barrier of a third group of all ranks")
    return log.steps


def _exchange_with_neighbours(block: torch.Tensor, rank: int, ranks: int) -> None:
    received = torch.empty_like(block)
    operations = [
        dist.P2POp(dist.isend, block, (rank + 1) % ranks),
        dist.P2POp(dist.irecv, received, (rank - 1) % ranks),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def probe_kv_cache() -> list[dict[str, Any]]:
    """Paged caches as inference engines lay them out, one tensor per layer."""
    block, blocks = 16, 1000
    shapes = {
        "Qwen2.5-7B": (28, (2, blocks, block, 4, 128), torch.bfloat16),
        "Qwen2.5-7B fp8": (28, (2, blocks, block, 4, 128), torch.float8_e4m3fn),
        "Qwen2.5-7B tensor parallel 2": (28, (2, blocks, block, 2, 128), torch.bfloat16),
        "DeepSeek-V2-Lite": (27, (blocks, block, 512 + 64), torch.bfloat16),
        "DeepSeek-V2-Lite fp8": (27, (blocks, block, 512 + 64), torch.float8_e4m3fn),
    }
    found = []
    for name, (layers, shape, dtype) in shapes.items():
        before = reading()
        cache = [torch.zeros(shape, dtype=dtype, device=device()) for _ in range(layers)]
        after = reading()
        found.append(
            {
                "cache": name,
                "layers": layers,
                "shape": list(shape),
                "dtype": str(dtype).removeprefix("torch."),
                "tokens": blocks * block,
                "tensor_bytes": sum(layer.nbytes for layer in cache),
                "allocated_bytes": after.allocated_bytes - before.allocated_bytes,
                "reserved_bytes": after.reserved_bytes - before.reserved_bytes,
            }
        )
        del cache
        torch.cuda.empty_cache()
    return found
