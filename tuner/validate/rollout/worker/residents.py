"""The residents of a rollout and its KV cache, really allocated, and sequences decoded against the cache."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from tuner.validate.rollout.settings import DecodeFigures, RolloutFigures, RolloutWork
from tuner.validate.rollout.worker.paged import Decoder, PagedCache, attend
from tuner.validate.worker.timing import repeated

_DECODED_S = 0.5  # of steps that are timed
_CPU_STEPS = 3
_CHECKED = 8  # sequences whose attention is computed again
_UNITS = 8  # in the last place of the largest result: what paged attention may differ from exact


def measure(works: tuple[RolloutWork, ...], seconds: float, *, device: str) -> tuple[RolloutFigures, ...]:
    """Measures each of the works alone on the device, one after the other; fewer where time runs out.

    Args:
        works: the first is run whatever it takes.
        seconds: after which no other begins that would take as long as the one before.
        device: of ``torch.device``.
    """
    end, figures = time.monotonic() + seconds, list[RolloutFigures]()
    took = 0.0
    for work in works:
        began = time.monotonic()
        if figures and began + took > end:
            break
        figures.append(_Rollout(work, torch.device(device)).measure())
        took = time.monotonic() - began
        gc.collect()
        if torch.device(device).type == "cuda":
            torch.cuda.empty_cache()
    return tuple(figures)


class _Rollout:
    """One work on the device."""

    def __init__(self, work: RolloutWork, device: torch.device) -> None:
        self.work, self.device = work, device
        self.cuda = device.type == "cuda"
        self.held: dict[str, Tensor] = {}
        self.layers: list[Tensor] = []

    def measure(self) -> RolloutFigures:
        work = self.work
        for name, size in (*work.residents, ("engine_weights", work.weight_bytes)):
            if not self.hold(name, size):
                return RolloutFigures(missing=name)
        before = self.bytes_now()
        enough = all(self.add_layer() for _ in range(work.cache.layers))
        after = self.bytes_now()
        cache = RolloutFigures(
            cache_layers=len(self.layers),
            cache_bytes=after[0] - before[0],
            cache_reserved_bytes=after[1] - before[1],
        )
        if not enough:
            return replace(cache, missing="kv_cache")
        decode, reason = self.decoded()
        if self.cuda:
            gc.collect()
            torch.cuda.empty_cache()
        there = self.hold("engine_activations", work.activation_bytes)
        return replace(
            cache,
            used_bytes=self.used() if there else None,
            missing="" if there else "engine_activations",
            decode=decode,
            not_decoded=reason,
        )

    def hold(self, name: str, size: int) -> bool:
        """Allocate so many bytes; whether they were there."""
        try:
            self.held[name] = torch.empty(size, dtype=torch.uint8, device=self.device)
        except torch.OutOfMemoryError:
            return False
        return True

    def add_layer(self) -> bool:
        """One layer's cache, of zeros; whether there was room."""
        try:
            self.layers.append(
                torch.zeros(self.work.cache.layer_bytes, dtype=torch.uint8, device=self.device)
            )
        except torch.OutOfMemoryError:
            return False
        return True

    def bytes_now(self) -> tuple[int, int]:
        """What tensors take, and what the allocator has of the driver for them."""
        if self.cuda:
            return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        taken = sum(tensor.nbytes for tensor in (*self.held.values(), *self.layers))
        return taken, taken

    def used(self) -> int | None:
        if not self.cuda:
            return None
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return total - free

    def decoded(self) -> tuple[DecodeFigures | None, str]:
        """Figures of decoding, or why there are none."""
        work = self.work
        if work.decoder is None or not work.sequences:
            return None, "" if work.decoder is None else "the cache holds no sequence of full length"
        try:
            cache = PagedCache(self.layers, work.cache, work.decoder, work.sequences, work.longest_tokens)
            with torch.no_grad():
                return self.steps(Decoder(work.decoder, self.held["engine_weights"]), cache), ""
        except torch.OutOfMemoryError:
            return None, "gathering the blocks that one step reads ran out of memory beside the cache"

    def steps(self, decoder: Decoder, cache: PagedCache) -> DecodeFigures:
        work = self.work
        error, limit = attention_error(decoder, cache, self.device)
        tokens_S = torch.randint(decoder.shape.vocab, (work.sequences,), device=self.device)
        position = first = min(work.context_tokens, work.longest_tokens - 1)

        def step() -> None:
            nonlocal tokens_S, position
            tokens_S = decoder.step(tokens_S, position, cache)
            position = position + 1 if position + 1 < work.longest_tokens else first

        if not self.cuda:
            for _ in range(_CPU_STEPS):
                step()
            return DecodeFigures(attention_error=error, attention_limit=limit)
        step()  # what libraries load and take for themselves
        peaks = _Peaks()
        decoder.step(tokens_S, position, cache, peaks.within_attention)
        peaks.end()
        return DecodeFigures(
            attention_error=error,
            attention_limit=limit,
            seconds=tuple(repeated(step, seconds=_DECODED_S)),
            workspace_bytes=peaks.outside,
            gathered_bytes=peaks.inside,
        )


class _Peaks:
    """Bytes beyond those at the start, within attention and outside of it."""

    def __init__(self) -> None:
        torch.cuda.reset_peak_memory_stats()
        self._start = torch.cuda.memory_allocated()
        self.inside = self.outside = 0

    def _since_reset(self) -> int:
        peak = torch.cuda.max_memory_allocated() - self._start
        torch.cuda.reset_peak_memory_stats()
        return peak

    @contextmanager
    def within_attention(self) -> Iterator[None]:
        self.end()
        yield
        self.inside = max(self.inside, self._since_reset())

    def end(self) -> None:
        self.outside = max(self.outside, self._since_reset())


def attention_error(decoder: Decoder, cache: PagedCache, device: torch.device) -> tuple[float, float]:
    """Paged attention against attention over the same keys and values in one piece, in float64.

    Returns:
        The largest difference as a share of the largest result, and what it may be.
    """
    shape, sequences = decoder.shape, len(cache.table_SB)
    checked = min(_CHECKED, sequences)
    tokens = min(3 * cache.block_tokens - 1, cache.table_SB.shape[1] * cache.block_tokens)
    layer = shape.layers - 1
    keys, values = (
        torch.randn(tokens, sequences, shape.kv_heads, shape.head_dim, device=device, dtype=decoder.dtype)
        for _ in range(2)
    )
    for position in range(tokens):
        cache.write(layer, position, keys[position], values[position])
    query_SAD = torch.randn(checked, shape.heads, shape.head_dim, device=device, dtype=decoder.dtype)
    paged_SAD = attend(cache, layer, query_SAD, tokens).double()
    keys_TSAD, values_TSAD = (
        stored[:, :checked].to(cache.dtype).double().repeat_interleave(shape.heads // shape.kv_heads, dim=2)
        for stored in (keys, values)
    )
    scores_TSA = (keys_TSAD * query_SAD.double()).sum(-1) * shape.head_dim**-0.5
    exact_SAD = (scores_TSA.softmax(0)[..., None] * values_TSAD).sum(0)
    error = (paged_SAD - exact_SAD).abs().max() / exact_SAD.abs().max()
    return float(error), _UNITS * torch.finfo(decoder.dtype).eps
