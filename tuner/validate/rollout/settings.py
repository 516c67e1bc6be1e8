"""What is allocated and decoded for one rollout, and what came of it; handed to the worker and back."""

from dataclasses import dataclass, field, replace
from math import ceil

from tuner.dtypes import DType
from tuner.units import KIB, MIB


@dataclass(frozen=True, kw_only=True)
class DecoderShape:
    """One GPU's share of a dense decoder; heads, width and vocabulary are those of its share."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    gated: bool
    vocab: int
    vocab_shards: int  # GPUs whose logits are put together before a token is chosen
    dtype: DType


@dataclass(frozen=True, kw_only=True)
class CacheShape:
    """The KV cache of one GPU, each layer's a tensor of its own."""

    layers: int
    blocks: int
    block_tokens: int
    token_bytes: int  # keys and values of one token in one layer
    dtype: DType

    @property
    def layer_bytes(self) -> int:
        """One layer's."""
        return self.blocks * self.block_tokens * self.token_bytes

    @property
    def block_bytes(self) -> int:
        """One block in all layers."""
        return self.layers * self.block_tokens * self.token_bytes


@dataclass(frozen=True, kw_only=True)
class RolloutWork:
    """The memory of one GPU while the engine generates, and the sequences that are decoded there."""

    residents: tuple[tuple[str, int], ...]  # stand-ins for what is neither weights nor cache: name, bytes
    weight_bytes: int
    activation_bytes: int  # what the engine keeps free for a step of its own
    cache: CacheShape
    decoder: DecoderShape | None  # None: the cache is allocated, and nothing decoded
    sequences: int
    context_tokens: int  # of each sequence when it is decoded
    longest_tokens: int  # each sequence has blocks for so many


@dataclass(frozen=True, kw_only=True)
class DecodeFigures:
    """Some steps of all sequences, one token each."""

    attention_error: float  # largest, as a share of the largest result; paged against dense in float64
    attention_limit: float
    seconds: tuple[float, ...] = ()  # of each step; none on a CPU
    workspace_bytes: int | None = None  # beyond weights and cache, outside of attention; None on a CPU
    gathered_bytes: int | None = None  # the same within attention, which gathers blocks; None on a CPU


@dataclass(frozen=True, kw_only=True)
class RolloutFigures:
    """What one GPU really gave."""

    cache_layers: int = 0  # that could be allocated
    cache_bytes: int = 0  # taken from the allocator
    cache_reserved_bytes: int = 0  # taken from the driver for it
    used_bytes: int | None = None  # of the GPU by whomever, everything predicted there at once; None on a CPU
    missing: str = ""  # what memory ran out for; empty where all was there
    decode: DecodeFigures | None = None
    not_decoded: str = ""  # why there is no decoding, where one was asked for


@dataclass(frozen=True, kw_only=True)
class EngineWork:
    """What vLLM is started with."""

    config: dict[str, object]  # the model's config.json
    residents: tuple[tuple[str, int], ...]
    arguments: dict[str, object] = field(default_factory=dict)  # of vllm.LLM
    sequences: int  # that run at once
    context_tokens: int  # of each, before the decoding steps
    steps: int  # of decoding, each time
    repetitions: int
    gpus: int = 1  # that share the model, the first of those that are here
    fewer: int = (
        0  # sequences that are decoded once more on their own, for what the host takes for each; 0: none
    )


@dataclass(frozen=True, kw_only=True)
class VllmFigures:
    """What vLLM says of itself, and what it took."""

    version: str
    blocks: int
    block_tokens: int
    used_bytes: int  # of the GPU by whomever, once it has decoded
    ready_seconds: float  # until it could
    step_seconds: tuple[float, ...]  # of one decoding step, in each repetition
    sequences: int  # one token of each in a step
    starts: int = 1  # that the seconds are of
    fewer: int = 0  # sequences of further steps
    fewer_seconds: tuple[float, ...] = ()  # of one of these, in each repetition

    @property
    def tokens(self) -> int:
        """Tokens that the cache holds."""
        return self.blocks * self.block_tokens

    @property
    def token_seconds(self) -> tuple[float, ...]:
        """Seconds that one token takes while all sequences are decoded together, by repetition."""
        return tuple(seconds / self.sequences for seconds in self.step_seconds)


_TINY_BYTES = 64 * KIB
_TINY_LAYERS, _TINY_HIDDEN, _TINY_HEAD = 2, 64, 16
_TINY_SEQUENCES = 3


def tiny(work: RolloutWork) -> RolloutWork:
    """The work with sizes of some KiB, for a CPU: as many query heads per key head, blocks as long."""
    block, sequences = work.cache.block_tokens, min(_TINY_SEQUENCES, work.sequences)
    context = 2 * block + 5
    longest = context + block
    decoder = None if work.decoder is None else _tiny_decoder(work.decoder)
    dtype = work.cache.dtype if work.cache.dtype is DType.FLOAT8 else DType.FLOAT32
    token_bytes = min(work.cache.token_bytes, 256)
    if decoder is not None:
        token_bytes = 2 * decoder.kv_heads * decoder.head_dim * dtype.bytes
    return replace(
        work,
        residents=tuple((name, min(size, _TINY_BYTES)) for name, size in work.residents),
        weight_bytes=4 * MIB,
        activation_bytes=_TINY_BYTES,
        cache=CacheShape(
            layers=_TINY_LAYERS,
            blocks=sequences * ceil(longest / block) + 1,
            block_tokens=block,
            token_bytes=token_bytes,
            dtype=dtype,
        ),
        decoder=decoder,
        sequences=sequences,
        context_tokens=context,
        longest_tokens=longest,
    )


def _tiny_decoder(shape: DecoderShape) -> DecoderShape:
    kv_heads = min(shape.kv_heads, 2)
    return replace(
        shape,
        layers=_TINY_LAYERS,
        hidden=_TINY_HIDDEN,
        heads=kv_heads * (shape.heads // shape.kv_heads),
        kv_heads=kv_heads,
        head_dim=_TINY_HEAD,
        intermediate=96,
        vocab=251,
        dtype=DType.FLOAT32,
    )
