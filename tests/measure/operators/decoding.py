"""How fast a decoding step reads its cache, by FlashAttention 3 as vLLM calls it, and its weights.

What is read lies in as many layers as keep it out of the card's second cache, one read after the other.
"""

from collections.abc import Callable
from datetime import date
from importlib import import_module, metadata
from itertools import product
from statistics import mean

import torch
from measure.operators.shapes import Decoder, Shapes, seconds_of, without_host

_BLOCK_TOKENS = 16  # of vLLM's cache
_SPLITS = 32  # at most, of a sequence's cache in a step that is replayed from a graph: vLLM's default
_LAYERS_BYTES = (
    1 << 30
)  # of all layers that are read one after the other: far more than the second cache holds
_SEQUENCES = (16, 64, 256, 1024)
_CONTEXTS = (256, 1024, 4096)  # tokens of a sequence, in the mean
_SHORTEST = 0.25  # of the mean, where lengths are spread evenly up to as much above it
_ROWS = (1, 8, 32, 64, 96, 128, 192, 256)  # sequences that get a token


def cache_reads(shapes: Shapes) -> dict[str, object]:
    """Bytes per second of keys and values, by the tokens of a sequence and the bytes of one token of each.

    The lengths of the sequences are spread evenly around their mean.

    Raises:
        ModuleNotFoundError: vLLM is not here.
    """
    seconds: dict[int, dict[int, list[float]]] = {context: {} for context in _CONTEXTS}
    for decoder, sequences, context in product(_decoders(shapes), _SEQUENCES, _CONTEXTS):
        token_bytes = 2 * 2 * decoder.kv_heads * decoder.head_dim * sequences
        layers = -(-2 * shapes.copied_values // (token_bytes * context))
        attend, check = _attention(decoder, _lengths(sequences, context), layers)
        taken = seconds_of(without_host(attend), least=shapes.seconds) / layers
        check()
        seconds[context].setdefault(token_bytes, []).append(taken)
    return cache_table(seconds, metadata.version("vllm"))


def cache_table(seconds: dict[int, dict[int, list[float]]], version: str) -> dict[str, object]:
    """The table of seconds by context and bytes, the mean of those that agree in both."""
    contexts = sorted(seconds)
    sizes = sorted(seconds[contexts[0]])
    return {
        "vllm": version,
        "date": date.today().isoformat(),
        "contexts": contexts,
        "token_bytes": sizes,
        "bytes_per_s": [
            [round(context * size / mean(seconds[context][size])) for size in sizes] for context in contexts
        ],
    }


def weight_reads(shapes: Shapes) -> dict[str, object]:
    """Bytes per second of weights that few rows are multiplied with, by the bytes of a matrix."""
    seconds: dict[int, dict[int, list[float]]] = {}
    widths = sorted({(one.hidden, one.intermediate) for one in _decoders(shapes)})
    for (hidden, intermediate), rows in product(widths, _ROWS):
        for inner, outer in ((hidden, intermediate), (intermediate, hidden), (hidden, hidden)):
            size = 2 * inner * outer
            weights = [
                torch.randn(outer, inner, device=shapes.device, dtype=torch.bfloat16)
                for _ in range(-(-2 * shapes.copied_values // size))
            ]
            given = torch.randn(rows, inner, device=shapes.device, dtype=torch.bfloat16)

            def multiply(given: torch.Tensor = given, weights: list[torch.Tensor] = weights) -> None:
                for weight in weights:
                    torch.nn.functional.linear(given, weight)

            taken = seconds_of(without_host(multiply), least=shapes.seconds) / len(weights)
            seconds.setdefault(size, {}).setdefault(rows, []).append(taken)
    return weight_table(seconds)


def weight_table(seconds: dict[int, dict[int, list[float]]]) -> dict[str, object]:
    """The table of seconds by bytes and rows, the mean of those that agree in both."""
    sizes = sorted(seconds)
    return {
        "torch": torch.__version__,
        "date": date.today().isoformat(),
        "bytes": sizes,
        "rows": list(_ROWS),
        "bytes_per_s": [[round(size / mean(seconds[size][rows])) for rows in _ROWS] for size in sizes],
    }


def _decoders(shapes: Shapes) -> tuple[Decoder, ...]:
    """Those whose heads are as wide as those of most models."""
    return tuple(one for one in shapes.decoders if one.head_dim == shapes.decoders[1].head_dim)


def _lengths(sequences: int, context: int) -> list[int]:
    step = 2 * (1 - _SHORTEST) / max(1, sequences - 1)
    return [round(context * (_SHORTEST + index * step)) for index in range(sequences)]


def _attention(
    decoder: Decoder, lengths: list[int], layers: int
) -> tuple[Callable[[], None], Callable[[], None]]:
    """One query of each sequence on its cache, whose blocks lie anywhere, in one layer after the other.

    Returns:
        That, and what checks its result.
    """
    interface = import_module("vllm.vllm_flash_attn.flash_attn_interface")
    sequences, longest = len(lengths), max(lengths)
    per_sequence = -(-longest // _BLOCK_TOKENS)
    needed = [-(-length // _BLOCK_TOKENS) for length in lengths]
    places = torch.randperm(sum(needed), device="cuda", dtype=torch.int32)
    table = torch.zeros(sequences, per_sequence, device="cuda", dtype=torch.int32)
    for row, (blocks, part) in enumerate(zip(needed, places.split(needed), strict=True)):
        table[row, :blocks] = part
    shape = (sum(needed), 2, _BLOCK_TOKENS, decoder.kv_heads, decoder.head_dim)
    caches = [torch.empty(shape, device="cuda", dtype=torch.bfloat16).normal_() for _ in range(layers)]
    query = torch.randn(sequences, decoder.heads, decoder.head_dim, device="cuda", dtype=torch.bfloat16)
    output = torch.empty_like(query)
    used = torch.tensor(lengths, device="cuda", dtype=torch.int32)
    starts = torch.arange(sequences + 1, device="cuda", dtype=torch.int32)
    plan = interface.get_scheduler_metadata(
        batch_size=sequences,
        max_seqlen_q=1,
        max_seqlen_k=longest,
        num_heads_q=decoder.heads,
        num_heads_kv=decoder.kv_heads,
        headdim=decoder.head_dim,
        cache_seqlens=used,
        qkv_dtype=torch.bfloat16,
        cu_seqlens_q=starts,
        page_size=_BLOCK_TOKENS,
        causal=True,
        num_splits=_SPLITS,
    )

    def attend() -> None:
        for cache in caches:
            keys, values = cache.unbind(1)
            interface.flash_attn_varlen_func(
                q=query,
                k=keys,
                v=values,
                out=output,
                cu_seqlens_q=starts,
                max_seqlen_q=1,
                seqused_k=used,
                max_seqlen_k=longest,
                causal=True,
                block_table=table,
                scheduler_metadata=plan,
                fa_version=3,
                num_splits=_SPLITS,
            )

    return attend, lambda: _check(query, caches[-1], table, lengths, output)


def _check(
    query: torch.Tensor, cache: torch.Tensor, table: torch.Tensor, lengths: list[int], output: torch.Tensor
) -> None:
    """The first and the last sequence against plain attention.

    Raises:
        RuntimeError: they differ by more than rounding explains.
    """
    for row in (0, len(lengths) - 1):
        blocks = table[row, : -(-lengths[row] // _BLOCK_TOKENS)].long()
        keys, values = (part[blocks].flatten(0, 1)[: lengths[row]].float() for part in cache.unbind(1))
        groups = query.shape[1] // keys.shape[1]
        keys, values = (part.repeat_interleave(groups, 1) for part in (keys, values))
        scores = torch.einsum("hd,khd->hk", query[row].float(), keys) / query.shape[2] ** 0.5
        expected = torch.einsum("hk,khd->hd", scores.softmax(-1), values)
        if (output[row].float() - expected).abs().max() > 0.02 * max(1.0, float(expected.abs().max())):
            raise RuntimeError("attention over the cache is not what it should be")
