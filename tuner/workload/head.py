"""How log-probabilities come out of the last hidden states."""

from typing import Annotated

from msgspec import Struct

from tuner.dtypes import DType
from tuner.enumeration import Enum
from tuner.field_marks import UNPUBLISHED


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


#: Tokens of a chunk where the entropy is computed in chunks: verl's default, fixed until it had a key.
ENTROPY_CHUNK_TOKENS = 2048


#: Tokens of a chunk of the fused head written in torch: verl's, fixed in its code. Source: verl
#: ``utils/experimental/torch_functional.py`` (``FusedLinearForPPO``).
FUSED_CHUNK_TOKENS = 512


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
    float32_loss: Annotated[bool, UNPUBLISHED] = False  # PyTorch's cross entropy, which autocast widens
    shifts_logits: Annotated[bool, UNPUBLISHED] = False  # into a copy without the last of each sequence
    # fused kinds that are right for this model, engine and release; a rule proposes no other
    fusable: tuple[HeadKind, ...] = (HeadKind.FUSED_TORCH, HeadKind.FUSED_TRITON)
    # fused kinds that round log-probabilities to the dtype of the logits: another loss, and another ratio
    rounding: Annotated[tuple[HeadKind, ...], UNPUBLISHED] = ()
