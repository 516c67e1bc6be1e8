"""How log-probabilities come out of the last hidden states, and what tables call each way.

A way is named by what makes its memory another: how the entropy is computed, how the temperature divides, and
whether logits exist at all.
"""

from types import MappingProxyType
from typing import Annotated

from msgspec import Struct

from tuner.dtypes import DType
from tuner.enumeration import Enum
from tuner.field_marks import UNPUBLISHED
from tuner.language import N_, _

#: Tokens of a chunk where the entropy is computed in chunks: verl's default, fixed until it had a key.
ENTROPY_CHUNK_TOKENS = 2048
#: Tokens of a chunk of the fused head written in torch: verl's, fixed in its code. Source: verl
#: ``utils/experimental/torch_functional.py`` (``FusedLinearForPPO``).
FUSED_CHUNK_TOKENS = 512
#: What the names are made of, beside names of kernels.
PARTS = (
    N_("fused"),
    N_("compiled"),
    N_("eager"),
    N_("chunked"),
    N_("checkpointed"),
    N_("row by row"),
    N_("log-probability only"),
    N_("temperature copies"),
    N_("temperature in place"),
)


class HeadKind(Enum):
    """How log-probabilities and entropy are computed from the last hidden states."""

    LOGITS = "logits"  # the [tokens, vocab] tensor exists
    FUSED_TORCH = "fused_torch"  # chunks of tokens, logits never whole
    FUSED_TRITON = "fused_triton"  # kernel over vocabulary tiles
    FUSED_LIGER = "fused_liger"
    FUSED_TUNER = "fused_tuner"  # that of tuner.inside_verl, which computes the logits again
    VALUE = "value"  # a critic's single output column


class Scaling(Enum):
    """What dividing the logits by the temperature does to memory."""

    NONE = "none"
    IN_PLACE = "in_place"
    COPY = "copy"


class OutputHead(Struct, frozen=True, kw_only=True, cache_hash=True):
    """Everything between the last hidden states and log-probabilities."""

    kind: HeadKind
    compiled: bool = True  # entropy runs through torch.compile
    chunk_tokens: int | None = None  # entropy in chunks of this many tokens
    fused_chunk_tokens: Annotated[int, UNPUBLISHED] = FUSED_CHUNK_TOKENS  # of the fused head written in torch
    checkpointed: bool = False  # entropy recomputed in the backward pass
    scaling: Scaling = Scaling.NONE
    clones_logits: Annotated[bool, UNPUBLISHED] = False  # Megatron: the cross entropy works on a copy of them
    logits_dtype: DType = DType.BFLOAT16
    fused_cross_entropy: bool = True  # flash-attn's Triton cross entropy
    loops_tokens: Annotated[bool, UNPUBLISHED] = False  # the log-probability of each packed token by itself
    float32_loss: Annotated[bool, UNPUBLISHED] = False  # PyTorch's cross entropy, which autocast widens
    log_softmax: Annotated[bool, UNPUBLISHED] = False  # of all columns in float32, from which one is gathered
    takes_columns: Annotated[bool, UNPUBLISHED] = False  # a few of each token's logits, and no other
    shares_columns: Annotated[bool, UNPUBLISHED] = False  # that among ranks, which sum over them in chunks
    shifts_logits: Annotated[bool, UNPUBLISHED] = False  # into a copy without the last of each sequence
    # without packing: log-probabilities and entropy are computed from the logits of responses alone
    slices_response: Annotated[bool, UNPUBLISHED] = False
    # fused kinds that are right for this model, engine and release; a rule proposes no other
    fusable: tuple[HeadKind, ...] = (HeadKind.FUSED_TORCH, HeadKind.FUSED_TRITON)
    # fused kinds that round log-probabilities to the dtype of the logits: another loss, and another ratio
    rounding: Annotated[tuple[HeadKind, ...], UNPUBLISHED] = ()


_FUSED = {
    HeadKind.FUSED_TORCH: "fused, torch",
    HeadKind.FUSED_TRITON: "fused, Triton",
    HeadKind.FUSED_LIGER: "fused, Liger",
    HeadKind.FUSED_TUNER: "fused, tuner",
}
_SCALING = {
    Scaling.NONE: "",
    Scaling.COPY: ", temperature copies",
    Scaling.IN_PLACE: ", temperature in place",
}


def head_name(head: OutputHead, *, entropy: bool = True) -> str:
    """The name of a head in passes with or without entropy; a value head has none."""
    if head.kind in _FUSED:
        return _FUSED[head.kind]
    text = _entropy_name(head) if entropy else "log-probability only"
    text += _SCALING[head.scaling]
    return text if head.fused_cross_entropy else f"{text}, row by row"


def head_label(name: str) -> str:
    """A head's name in the reader's language, part by part."""
    return _(", ").join(_part(part) for part in name.split(", "))


def _part(part: str) -> str:
    tokens = part.removeprefix("chunks of ").removesuffix(" tokens")
    return _(part) if tokens == part else _("chunks of {tokens} tokens").format(tokens=tokens)


def _entropy_name(head: OutputHead) -> str:
    text = "compiled" if head.compiled else "eager"
    if head.chunk_tokens is not None:
        usual = head.chunk_tokens == ENTROPY_CHUNK_TOKENS
        text += ", chunked" if usual else f", chunks of {head.chunk_tokens} tokens"
    return f"{text}, checkpointed" if head.checkpointed else text


def _eager(*, chunk: int | None = None, checkpointed: bool = False) -> OutputHead:
    return OutputHead(kind=HeadKind.LOGITS, compiled=False, chunk_tokens=chunk, checkpointed=checkpointed)


#: The heads that are compared, by name, from the plainest to the leanest.
COMPARED_HEADS = MappingProxyType(
    {
        head_name(head): head
        for head in (
            _eager(),
            _eager(checkpointed=True),
            _eager(chunk=ENTROPY_CHUNK_TOKENS),
            _eager(chunk=ENTROPY_CHUNK_TOKENS, checkpointed=True),
            OutputHead(kind=HeadKind.LOGITS),
            OutputHead(kind=HeadKind.LOGITS, chunk_tokens=ENTROPY_CHUNK_TOKENS),
            OutputHead(kind=HeadKind.LOGITS, scaling=Scaling.COPY),
            OutputHead(kind=HeadKind.LOGITS, scaling=Scaling.IN_PLACE),
            OutputHead(kind=HeadKind.FUSED_TORCH),
            OutputHead(kind=HeadKind.FUSED_TRITON),
            OutputHead(kind=HeadKind.FUSED_LIGER),
        )
    }
)
