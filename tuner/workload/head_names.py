"""The ways to compute log-probabilities and entropy, by the names that tables and measurements show.

A way is named by what makes its memory another: how the entropy is computed, how the temperature divides, and
whether logits exist at all.
"""

from types import MappingProxyType

from tuner.language import N_, _
from tuner.workload.head import ENTROPY_CHUNK_TOKENS, HeadKind, OutputHead, Scaling

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
