"""A decoder that keeps keys and values in blocks, with attention over the blocks of each sequence.

S: sequences. T: tokens of a sequence. B: blocks of a sequence. P: blocks of the cache. O: tokens of a block.
A, K: heads of queries, of keys and values. D: head size. H: hidden size. V: vocabulary.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tuner.dtypes import DType
from tuner.units import MIB
from tuner.validate.rollout.settings import CacheShape, DecoderShape

_GATHERED = 256 * MIB  # keys and values that are copied out of their blocks at once
_ALIGNMENT = 256  # bytes, where a matrix may begin
_STANDARD_DEVIATION = 0.02

Scope = Callable[[], AbstractContextManager[object]]


def torch_dtype(dtype: DType) -> torch.dtype:
    """The format in torch."""
    if dtype is DType.FLOAT8:
        return torch.float8_e4m3fn
    torch_dtype: torch.dtype = getattr(torch, dtype.value)
    return torch_dtype


class PagedCache:
    """Keys and values of every layer, ``[2, P, O, K, D]`` each, and the blocks of every sequence.

    Blocks are given to sequences in random order, so that nothing works by luck that takes a sequence's
    blocks for neighbours.

    Args:
        layers: one tensor of bytes each.
        shape: of the cache.
        decoder: of the model.
        sequences: that have blocks.
        longest: tokens that each of them has blocks for.
    """

    def __init__(
        self, layers: list[Tensor], shape: CacheShape, decoder: DecoderShape, sequences: int, longest: int
    ) -> None:
        dims = (2, shape.blocks, shape.block_tokens, decoder.kv_heads, decoder.head_dim)
        self.dtype, self.block_tokens = torch_dtype(shape.dtype), shape.block_tokens
        # Formats of one byte cannot be indexed on every device, bytes can.
        self._stored = torch.uint8 if self.dtype.itemsize == 1 else self.dtype
        self._layers_2POKD = [layer.view(self._stored).view(dims) for layer in layers]
        blocks = -(-longest // shape.block_tokens)
        order = torch.randperm(shape.blocks, device=layers[0].device)
        self.table_SB = order[: sequences * blocks].view(sequences, blocks)

    def write(self, layer: int, position: int, keys_SKD: Tensor, values_SKD: Tensor) -> None:
        """One token of every sequence, all at the same position."""
        block, slot = divmod(position, self.block_tokens)
        blocks_S = self.table_SB[:, block]
        for stored_POKD, new_SKD in zip(self._layers_2POKD[layer], (keys_SKD, values_SKD), strict=True):
            stored_POKD[blocks_S, slot] = new_SKD.to(self.dtype).view(self._stored)

    def read(self, layer: int, sequences: slice, tokens: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The first tokens of some sequences, ``[S, T, K, D]`` of keys and of values."""
        used_SB = self.table_SB[sequences, : -(-tokens // self.block_tokens)]

        def gathered(stored_POKD: Tensor) -> Tensor:
            gathered = stored_POKD.index_select(0, used_SB.flatten()).view(self.dtype)
            return gathered.view(len(used_SB), -1, *gathered.shape[2:])[:, :tokens].to(dtype)

        stored = self._layers_2POKD[layer]
        return gathered(stored[0]), gathered(stored[1])


def attend(cache: PagedCache, layer: int, query_SAD: Tensor, tokens: int) -> Tensor:
    """Attention of one new token of the first S sequences to their first ``tokens``; ``[S, A, D]``.

    The blocks of a few sequences at a time are gathered. Query heads that share a key head are
    taken for queries of one head, which needs no kernel that knows of groups, and copies no keys.
    """
    return torch.cat(list(_attended(cache, layer, query_SAD, tokens)))


def _attended(cache: PagedCache, layer: int, query_SAD: Tensor, tokens: int) -> Iterator[Tensor]:
    kv_heads, size = cache._layers_2POKD[layer].shape[-2:]
    of_one = 2 * tokens * kv_heads * size * query_SAD.element_size()
    at_once = max(1, _GATHERED // of_one)
    for start in range(0, len(query_SAD), at_once):
        some = slice(start, min(start + at_once, len(query_SAD)))
        keys_STKD, values_STKD = cache.read(layer, some, tokens, query_SAD.dtype)
        query_SKGD = query_SAD[some].view(keys_STKD.shape[0], kv_heads, -1, size)
        found_SKGD = functional.scaled_dot_product_attention(
            query_SKGD, keys_STKD.transpose(1, 2), values_STKD.transpose(1, 2)
        )
        yield found_SKGD.flatten(1, 2)


class _Layer(NamedTuple):
    qkv: Tensor
    output: Tensor
    up: Tensor  # with the gate, where there is one
    down: Tensor


class Decoder:
    """A dense decoder with random weights; positions are not rotated, norms do not scale.

    Args:
        shape: of one GPU's share.
        weights: bytes that the matrices are cut from; where they do not suffice, matrices overlap.
    """

    def __init__(self, shape: DecoderShape, weights: Tensor) -> None:
        self.shape, self.dtype = shape, torch_dtype(shape.dtype)
        self._values = weights[: len(weights) // _ALIGNMENT * _ALIGNMENT].view(self.dtype)
        self._values.normal_(0.0, _STANDARD_DEVIATION)
        self._taken = 0
        hidden, size = shape.hidden, shape.head_dim
        queries, keys = shape.heads * size, shape.kv_heads * size
        wide = (2 if shape.gated else 1) * shape.intermediate
        self._embedding_VH = self._matrix(shape.vocab, hidden)
        self._layers = [
            _Layer(
                qkv=self._matrix(queries + 2 * keys, hidden),
                output=self._matrix(hidden, queries),
                up=self._matrix(wide, hidden),
                down=self._matrix(hidden, shape.intermediate),
            )
            for _ in range(shape.layers)
        ]

    def _matrix(self, rows: int, columns: int) -> Tensor:
        count, step = rows * columns, _ALIGNMENT // self.dtype.itemsize
        if self._taken + count > len(self._values):
            self._taken = 0
        if count > len(self._values):
            raise ValueError(f"a matrix of {count} elements is larger than all weights together")
        weight = self._values[self._taken : self._taken + count].view(rows, columns)
        self._taken += -(-count // step) * step
        return weight

    def logits(
        self, tokens_S: Tensor, position: int, cache: PagedCache, attention: Scope = nullcontext
    ) -> Tensor:
        """Logits after one token of each sequence, ``[S, V]`` of this GPU; keys and values are stored.

        Args:
            tokens_S: one of each sequence.
            position: theirs, the number of tokens before them.
            cache: holds the tokens before them.
            attention: a scope that attention runs in.
        """
        hidden_SH = functional.embedding(tokens_S % self.shape.vocab, self._embedding_VH)
        for index, layer in enumerate(self._layers):
            hidden_SH = hidden_SH + self._attention(layer, index, hidden_SH, position, cache, attention)
            hidden_SH = hidden_SH + self._mlp(layer, hidden_SH)
        return functional.linear(self._normed(hidden_SH), self._embedding_VH)

    def _normed(self, hidden_SH: Tensor) -> Tensor:
        return functional.rms_norm(hidden_SH, (self.shape.hidden,))

    def _attention(
        self,
        layer: _Layer,
        index: int,
        hidden_SH: Tensor,
        position: int,
        cache: PagedCache,
        scope: Scope,
    ) -> Tensor:
        shape = self.shape
        qkv = functional.linear(self._normed(hidden_SH), layer.qkv).view(len(hidden_SH), -1, shape.head_dim)
        query_SAD, keys_SKD, values_SKD = torch.split(
            qkv, [shape.heads, shape.kv_heads, shape.kv_heads], dim=1
        )
        query_SAD = query_SAD.contiguous()
        cache.write(index, position, keys_SKD, values_SKD)
        with scope():
            found_SAD = attend(cache, index, query_SAD, position + 1)
        return functional.linear(found_SAD.flatten(1), layer.output)

    def _mlp(self, layer: _Layer, hidden_SH: Tensor) -> Tensor:
        wide = functional.linear(self._normed(hidden_SH), layer.up)
        if not self.shape.gated:
            return functional.linear(functional.gelu(wide), layer.down)
        gate, up = wide.chunk(2, dim=-1)
        return functional.linear(functional.silu(gate) * up, layer.down)

    def step(
        self, tokens_S: Tensor, position: int, cache: PagedCache, attention: Scope = nullcontext
    ) -> Tensor:
        """The next token of each sequence, drawn from the whole distribution; ``[S]``."""
        logits_SV = self.logits(tokens_S, position, cache, attention)
        if self.shape.vocab_shards > 1:
            logits_SV = torch.cat([logits_SV] * self.shape.vocab_shards, dim=1)
        logits_SV = logits_SV.float()
        # The largest of logits less the logarithm of exponential noise is a draw from their softmax.
        noise_SV = torch.empty_like(logits_SV).exponential_().log_()
        return logits_SV.sub_(noise_SV).argmax(dim=1)
