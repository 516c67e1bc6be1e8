"""Two buckets on both sides of a transfer, as verl's ``nccl`` checkpoint engine fills and hands them on."""

import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from measure.readings import device, reading

from tuner.memory.weight_sync.carrier import joined_bytes, received_bytes
from tuner.memory.weight_sync.transfer import bucket_bytes

MIB = 2**20
LARGE = 9  # eighths of a bucket that the largest tensor takes


def probe_buckets(megabytes: int) -> list[dict[str, Any]]:
    """Rank 0 sends tensors, the others receive them and copy each bucket into one that an engine maps."""
    bucket = megabytes * (MIB if torch.cuda.is_available() else 2**10)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    warm = torch.zeros(1024, device=device())
    dist.broadcast(warm, 0)  # the communicator is there before
    before = reading()
    sizes = [bucket // 4] * 6 + [LARGE * bucket // 8] + [bucket // 4] * 3
    buffers = [torch.zeros(bucket, dtype=torch.uint8, device=device()) for _ in range(2)]
    start = time.perf_counter()
    _send(sizes, buffers, bucket) if rank == 0 else _receive(sizes, buffers, bucket)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated() - before.allocated_bytes if torch.cuda.is_available() else 0
    tensor = max(sizes)
    sent = bucket_bytes(n_t=2, n_e=0, B=bucket) + tensor  # with the largest tensor on its way
    received = received_bytes(n_r=2, n_h=1, B=bucket) + joined_bytes(b_t=1, E=tensor)
    name, predicted = ("sender", sent) if rank == 0 else ("receiver", received)
    transfer = {"case": "transfer", "gpus": ranks, "seconds": seconds, "bytes": sum(sizes)}
    return [*_gathered(_judged(name, predicted, peak), ranks), transfer]


def _chunks(sizes: list[int], bucket: int) -> Iterator[tuple[int, int, int]]:
    """Tensor, offset within it, and length of what travels at once."""
    for index, size in enumerate(sizes):
        for offset in range(0, size, bucket):
            yield index, offset, min(bucket, size - offset)


def _rounds(sizes: list[int], bucket: int) -> Iterator[list[tuple[int, int, int]]]:
    """What is sent together: chunks as long as they fit a bucket."""
    filled: list[tuple[int, int, int]] = []
    for chunk in _chunks(sizes, bucket):
        if sum(length for _, _, length in filled) + chunk[2] > bucket:
            yield filled
            filled = []
        filled.append(chunk)
    yield filled


def _send(sizes: list[int], buffers: list[torch.Tensor], bucket: int) -> None:
    tensor, held = None, -1
    for filled in _rounds(sizes, bucket):
        position = 0
        for index, offset, length in filled:
            if index != held:
                tensor = None
                tensor, held = torch.zeros(sizes[index], dtype=torch.uint8, device=device()), index
            assert tensor is not None
            buffers[0][position : position + length] = tensor[offset : offset + length]
            position += length
        dist.broadcast(buffers[0], 0)
        buffers.reverse()


def _receive(sizes: list[int], buffers: list[torch.Tensor], bucket: int) -> None:
    mapped = torch.empty(bucket, dtype=torch.uint8, device=device())  # the engine's, by CUDA IPC
    joined = None
    for filled in _rounds(sizes, bucket):
        dist.broadcast(buffers[0], 0)
        position = 0
        for index, offset, length in filled:
            chunk = buffers[0][position : position + length]
            if sizes[index] > bucket:
                if joined is None:
                    joined = torch.empty(sizes[index], dtype=torch.uint8, device=device())
                joined[offset : offset + length] = chunk
                joined = None if offset + length == sizes[index] else joined
            else:
                mapped[:length] = chunk
            position += length
        buffers.reverse()


def _judged(name: str, predicted: int, measured: int) -> dict[str, Any]:
    error = round(100 * (predicted - measured) / measured, 3) if measured else None
    return {"case": name, "predicted_bytes": predicted, "measured_bytes": measured, "error_percent": error}


def _gathered(found: dict[str, Any], ranks: int) -> list[dict[str, Any]]:
    everyone: list[Any] = [None] * ranks
    dist.all_gather_object(everyone, found)
    return everyone
