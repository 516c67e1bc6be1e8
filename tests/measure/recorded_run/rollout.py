"""What stands in for a rollout engine: it takes weights, holds a cache, and answers at random."""

import ctypes
import time
from collections.abc import Iterator
from typing import Any

import torch
from measure.recorded_run.settings import Job


class RandomRollout:
    """A rollout that keeps no weights; its cache is memory of the card that PyTorch knows nothing of.

    Args:
        job: how long its sequences are, and how much its cache holds.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._cache = Cache()
        self.sleep_level = 2

    async def resume(self, tags: list[str]) -> None:
        """Take the memory of the cache."""
        if "kv_cache" in tags and torch.cuda.is_available():
            self._cache.take(self._job.cache_bytes)

    async def update_weights(self, weights: Iterator[tuple[str, torch.Tensor]], **_further: Any) -> None:
        """Take every tensor, and let it go."""
        for _name, tensor in weights:
            tensor.sum()

    def generate(self, step: int, rank: int) -> dict[str, torch.Tensor]:
        """Prompts and responses of random tokens, of several lengths, the longest the job's."""
        job = self._job
        generator = torch.Generator().manual_seed(1000 * step + rank)
        lengths = torch.randint(
            job.response_tokens // 4, job.response_tokens + 1, (job.sequences,), generator=generator
        )
        lengths[0] = job.response_tokens
        tokens = torch.randint(
            job.vocabulary, (job.sequences, job.prompt_tokens + job.response_tokens), generator=generator
        )
        time.sleep(job.generation_seconds)
        self._cache.free()
        return {"tokens": tokens, "lengths": lengths}


class Cache:
    """Memory of the card that is taken from CUDA's driver, as another process would."""

    def __init__(self) -> None:
        self._address = ctypes.c_uint64(0)

    def take(self, size: int) -> None:
        """Take so many bytes, unless some are held.

        Raises:
            RuntimeError: the driver has not as many.
        """
        if not self._address.value:
            code = _driver().cuMemAlloc_v2(ctypes.byref(self._address), ctypes.c_size_t(size))
            if code:
                raise RuntimeError(f"cuMemAlloc: {code}")

    def free(self) -> None:
        """Give it back."""
        if self._address.value:
            _driver().cuMemFree_v2(self._address)
            self._address = ctypes.c_uint64(0)


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")
