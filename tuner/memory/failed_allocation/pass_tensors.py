"""Tensors of a pass whose size goes with the tokens of its micro-batch.

How many of them exist at once is the business of the terms; here each is one allocation.
"""

from math import ceil

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.language import N_, _
from tuner.memory.batch.padded_response import PaddedResponse
from tuner.memory.failed_allocation.tensor import Factor, Tensor
from tuner.memory.head import fused, logits
from tuner.memory.head.response import response_tensors
from tuner.memory.head.tensors import LogitTensor, TokenSpan, entropy_chunk
from tuner.memory.ledger.terms import Item
from tuner.memory.megatron.head import head_tensors as megatron_head_tensors
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Batch, Engine, HeadKind, OutputHead, Pass

_FLOAT32 = DType.FLOAT32.bytes
_EAGER_KINDS = (N_("softmax"), N_("logsumexp copy"), N_("product"), N_("gradient"))


def logits_tensor(*, vocab: int, tokens: int, dtype_bytes: int, kinds: tuple[str, ...], by: str) -> Tensor:
    """A tensor with a row for each token and a column for each vocabulary entry."""
    return Tensor(
        name="logits_float32" if dtype_bytes == _FLOAT32 else "logits",
        kinds=tuple(map(_, kinds)),
        made_by=by,
        item=Item.LOGITS,
        factors=((vocab, _("vocabulary entries")),),
        dtype_bytes=dtype_bytes,
        tokens=tokens,
    )


def logits_of_unknown_head(*, vocab: int, tokens: int, dtype: DType) -> tuple[Tensor, ...]:
    """The logits in their own dtype and in float32: what heads that are not fused ask for."""
    own = logits_tensor(
        vocab=vocab,
        tokens=tokens,
        dtype_bytes=dtype.bytes,
        kinds=("logits", "copy", "gradient"),
        by=_("the output projection, the division by the temperature, or a backward pass"),
    )
    if dtype is DType.FLOAT32:
        return (own,)
    upcast = logits_tensor(
        vocab=vocab,
        tokens=tokens,
        dtype_bytes=_FLOAT32,
        kinds=_EAGER_KINDS,
        by=_("entropy or cross entropy that is not compiled, or a backward pass, in float32"),
    )
    return (own, upcast)


def head_tensors(
    model: ModelShape,
    engine: Engine,
    head: OutputHead,
    *,
    tokens: int,
    entropy: bool,
    training: bool,
    response: PaddedResponse | None = None,
) -> tuple[Tensor, ...]:
    """Tensors of an output head, from the list that its peak is summed from."""
    vocab = ceil(model.vocab / engine.parallel.tensor)
    if head.kind is HeadKind.LOGITS and response is not None:
        return _response_logits(
            head, response, vocab=vocab, tokens=tokens, entropy=entropy, training=training
        )
    if head.kind is HeadKind.LOGITS:
        return _logits(head, engine, vocab=vocab, tokens=tokens, entropy=entropy, training=training)
    if head.kind is HeadKind.FUSED_TORCH:
        chunk = min(head.fused_chunk_tokens, tokens)
        return (
            _chunk(vocab, chunk, _FLOAT32, ("logits", *_EAGER_KINDS), _("the fused head, chunk by chunk")),
        )
    if head.kind is HeadKind.FUSED_LIGER:
        chunk = ceil(tokens / ceil(vocab / model.hidden))
        by = _("Liger's fused head, chunk by chunk")
        return (_chunk(vocab, chunk, head.logits_dtype.bytes, ("logits",), by),)
    if head.kind in (HeadKind.FUSED_TRITON, HeadKind.FUSED_TUNER):
        return _slices(head, vocab=vocab, tokens=tokens, training=training)
    return ()


def _logits(
    head: OutputHead, engine: Engine, *, vocab: int, tokens: int, entropy: bool, training: bool
) -> tuple[Tensor, ...]:
    if engine.backend is Backend.MEGATRON:
        made = [
            *megatron_head_tensors(head, entropy=entropy, training=False),
            *megatron_head_tensors(head, entropy=entropy, training=training),
        ]
    else:
        made = [
            *logits.forward_tensors(head, entropy=entropy),
            *logits.logit_tensors(head, tokens=tokens, entropy=entropy, training=training),
        ]
    chunked = entropy and not head.compiled and head.chunk_tokens is not None
    sizes: dict[tuple[int, bool], list[LogitTensor]] = {}
    for one in made:
        if one.span not in (TokenSpan.BEFORE_LAST, TokenSpan.BEFORE_LAST_TWO):
            # In chunks, what is saved of all tokens was allocated chunk by chunk.
            pieces = one.span in (TokenSpan.CHUNK, TokenSpan.LAST) or (
                chunked and one.bytes_per_logit == _FLOAT32
            )
            sizes.setdefault((one.bytes_per_logit, pieces), []).append(one)
    tensors = []
    for (dtype_bytes, pieces), same in sizes.items():
        kinds = tuple(dict.fromkeys(one.name.replace("_", " ") for one in same))
        if pieces:
            chunk = entropy_chunk(head, tokens)
            tensors.append(_chunk(vocab, chunk, dtype_bytes, kinds, _("the entropy, chunk by chunk")))
        else:
            tensors.append(
                logits_tensor(
                    vocab=vocab, tokens=tokens, dtype_bytes=dtype_bytes, kinds=kinds, by=_("the output head")
                )
            )
    if all(dtype_bytes != _FLOAT32 for dtype_bytes, _ in sizes):
        tensors.append(_unexpected(vocab, tokens, entropy=entropy))
    return tuple(tensors)


def _response_logits(
    head: OutputHead, response: PaddedResponse, *, vocab: int, tokens: int, entropy: bool, training: bool
) -> tuple[Tensor, ...]:
    """Tensors of a head that computes with the logits of responses, of whichever of both they have rows."""
    sizes: dict[tuple[int, TokenSpan], list[LogitTensor]] = {}
    for trained in dict.fromkeys((False, training)):
        for one in response_tensors(head, response, entropy=entropy, tokens=tokens, training=trained):
            sizes.setdefault((one.bytes_per_logit, one.span), []).append(one)
    return tuple(
        logits_tensor(
            vocab=vocab,
            tokens=response.rows(tokens) if span is TokenSpan.RESPONSE else tokens,
            dtype_bytes=dtype_bytes,
            kinds=tuple(dict.fromkeys(one.name.replace("_", " ") for one in same)),
            by=_("the output head"),
        )
        for (dtype_bytes, span), same in sizes.items()
    )


def _unexpected(vocab: int, tokens: int, *, entropy: bool) -> Tensor:
    """Float32 logits where the head makes none if all goes as configured."""
    by = _("models that return float32 logits (transformers before 4.46), and their gradient")
    if entropy:
        by = _("the entropy where torch.compile fell back to eager code (compiled, it makes none)")
    return logits_tensor(vocab=vocab, tokens=tokens, dtype_bytes=_FLOAT32, kinds=_EAGER_KINDS, by=by)


def _chunk(vocab: int, tokens: int, dtype_bytes: int, kinds: tuple[str, ...], by: str) -> Tensor:
    return Tensor(
        name=f"logits_chunk_{dtype_bytes}",
        kinds=tuple(map(_, kinds)),
        made_by=by,
        item=Item.LOGITS,
        factors=((tokens, _("tokens of a chunk")), (vocab, _("vocabulary entries"))),
        dtype_bytes=dtype_bytes,
    )


def _slices(head: OutputHead, *, vocab: int, tokens: int, training: bool) -> tuple[Tensor, ...]:
    if not training:
        made_of = _("statistics of the slices")
        splits = ceil(vocab / fused.TRITON_FORWARD_SPLIT)
        return (_slice(head, splits, made_of, tokens=tokens, training=False),)
    made_of = _("one slice of the logits' gradient")
    if head.kind is HeadKind.FUSED_TUNER:
        width = min(fused.TUNER_SLICE_BYTES // (head.logits_dtype.bytes * tokens), vocab)
        return (_slice(head, width, made_of, tokens=tokens, training=True),)
    whole = _slice(head, fused.TRITON_BACKWARD_SPLIT, made_of, tokens=tokens, training=True)
    last = vocab % fused.TRITON_BACKWARD_SPLIT
    if not last:
        return (whole,)
    copy = _("a copy of the last slice of the logits' gradient")
    return (whole, _slice(head, last, copy, tokens=tokens, training=True))


def _slice(head: OutputHead, width: int, kind: str, *, tokens: int, training: bool) -> Tensor:
    ours = head.kind is HeadKind.FUSED_TUNER
    counted = _("vocabulary entries of a slice") if training else _("slices of the vocabulary")
    return Tensor(
        name="fused_head_gradient" if training else "fused_head_statistics",
        kinds=(kind,),
        made_by=_("the head of tuner.inside_verl") if ours else _("the fused Triton head"),
        item=Item.LOGITS,
        factors=((width, counted),),
        dtype_bytes=head.logits_dtype.bytes if training else _FLOAT32,
        tokens=tokens,
    )


def activation_tensors(model: ModelShape, engine: Engine, *, tokens: int) -> tuple[Tensor, ...]:
    """Tensors of a decoder layer whose size goes with tokens."""
    tensor_parallel = engine.parallel.tensor
    compute = engine.compute_dtype.bytes

    def made(name: str, kind: str, by: str, factors: tuple[Factor, ...], dtype_bytes: int) -> Tensor:
        return Tensor(
            name=name,
            kinds=(kind,),
            made_by=by,
            item=Item.ACTIVATIONS,
            factors=factors,
            dtype_bytes=dtype_bytes,
            tokens=tokens,
        )

    hidden = ((model.hidden, _("hidden entries")),)
    queries = ((model.heads, _("heads")), (model.head_dim, _("entries of a head")))
    tensors = [
        made("hidden_states", _("hidden states"), _("a decoder layer"), hidden, compute),
        made("hidden_float32", _("hidden states in float32"), _("a normalisation"), hidden, _FLOAT32),
        made("queries", _("queries or attention output"), _("attention"), queries, compute),
    ]
    if model.moe is None or model.moe.dense_layers:
        width = ((ceil(model.intermediate / tensor_parallel), _("entries of the MLP")),)
        tensors.append(made("mlp", _("gate, up or their product"), _("an MLP"), width, compute))
    if model.moe is not None:
        routed: Factor = (model.moe.experts_per_token, _("experts per token"))
        inner: Factor = (model.moe.expert_intermediate, _("entries of an expert"))
        copies, wide = (routed, *hidden), (routed, inner)
        tensors += [
            made("routed", _("tokens copied to their experts"), _("the router"), copies, compute),
            made(
                "routed_float32",
                _("expert outputs in float32"),
                _("weighting by the router"),
                copies,
                _FLOAT32,
            ),
            made("expert", _("gate, up or their product in the experts"), _("the experts"), wide, compute),
        ]
    return tuple(tensors)


def attention_score_tensors(
    model: ModelShape, engine: Engine, one_pass: Pass, batch: Batch
) -> tuple[Tensor, ...]:
    """Attention weights written out, which flash attention never does."""
    sequences = 1 if engine.packed or one_pass.batching.dynamic else one_pass.batching.micro_batch_sequences
    heads = ceil(model.heads / engine.parallel.sequence_split)
    own = _scores(sequences, heads, dtype_bytes=engine.compute_dtype.bytes, tokens=batch.sequence_tokens)
    return (own, replace(own, name="attention_scores_float32", dtype_bytes=_FLOAT32))


def attention_of_unknown_engine(model: ModelShape) -> tuple[Tensor, ...]:
    """Attention weights of one sequence up to the model's longest, in both dtypes."""
    own = _scores(1, model.heads, dtype_bytes=DType.BFLOAT16.bytes, tokens=model.max_positions)
    return (own, replace(own, name="attention_scores_float32", dtype_bytes=_FLOAT32))


def _scores(sequences: int, heads: int, *, dtype_bytes: int, tokens: int) -> Tensor:
    return Tensor(
        name="attention_scores",
        kinds=(_("attention scores of every pair of tokens"),),
        made_by=_("attention that is not flash attention (eager, or SDPA's plain kernel)"),
        item=Item.ACTIVATIONS,
        factors=((sequences, _("sequences")), (heads, _("heads"))),
        dtype_bytes=dtype_bytes,
        tokens=tokens,
        quadratic=True,
    )
