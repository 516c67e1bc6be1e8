"""Reads the output head: how a release computes log-probabilities and entropy."""

from tuner.architectures import find_architecture
from tuner.dtypes import DType
from tuner.model_shape import ModelShape
from tuner.trainers.verl.source import Source
from tuner.workload import ENTROPY_CHUNK_TOKENS, Backend, Engine, HeadKind, OutputHead, Scaling

_KINDS = {"torch": HeadKind.FUSED_TORCH, "triton": HeadKind.FUSED_TRITON, "liger": HeadKind.FUSED_LIGER}


def read_head(source: Source, model: ModelShape, engine: Engine) -> OutputHead:
    """The head of the actor, and of a reference that runs the same way.

    The reference computes no entropy, so that its own entropy switches mean nothing. flash-attn's
    cross entropy is taken to be installed, as verl's images have it.
    """
    if engine.backend is Backend.MEGATRON:
        return _megatron(source, model, engine)
    # Without packing verl calls the plain function, neither compiled nor in chunks.
    checkpointed = source.flag("actor.entropy_checkpointing")
    return OutputHead(
        kind=_kind(source),
        compiled=engine.packed and source.flag("actor.torch_compile", default=True),
        chunk_tokens=_chunk(source, checkpointed) if engine.packed else None,
        checkpointed=checkpointed and (engine.packed or source.since("0.5.0")),
        scaling=_scaling(source),
        logits_dtype=engine.compute_dtype if source.since("0.6.0") else DType.BFLOAT16,
        fusable=_fusable(source, model, engine),
    )


def _kind(source: Source) -> HeadKind:
    fused = source.flag("model.fused_head")
    backend = source.text("model.fused_backend", default="torch")
    if not fused:
        return HeadKind.LOGITS
    return _KINDS.get(backend, HeadKind.FUSED_TORCH)


def _fusable(source: Source, model: ModelShape, engine: Engine) -> tuple[HeadKind, ...]:
    """Fused heads that compute the right thing here.

    * The heads multiply by ``lm_head`` alone: models that cap or scale their logits afterwards lose that.
    * They read ``lm_head.weight`` as it stands, which FSDP2 has sharded where it is a unit of its own
      (verl #7520).
    * Up to 0.8 Liger's patch drops their gradients (verl #6913).
    * Triton's kernel takes widths in multiples of 128; before 0.7.1 it counts columns beyond the
      vocabulary unless that is a multiple of 1024 (verl #5349).
    """
    if not engine.packed or engine.separate_embedding_units:
        return ()
    if find_architecture(model.architecture).transforms_logits:
        return ()
    if engine.fused_layers and not source.since("0.9.0"):
        return ()
    triton = model.hidden % 128 == 0 and (source.since("0.7.1") or model.vocab % 1024 == 0)
    kinds = (HeadKind.FUSED_TRITON,) if triton else ()
    if engine.backend is Backend.MEGATRON:
        return kinds if source.since("0.5.0") else ()
    return (HeadKind.FUSED_TORCH, *kinds)


def _chunk(source: Source, checkpointed: bool) -> int | None:
    if not source.flag("actor.entropy_chunking"):
        return None
    if checkpointed:  # the size is not forwarded through the checkpoint
        return ENTROPY_CHUNK_TOKENS
    return source.integer("actor.fsdp.entropy_from_logits_chunk_size", default=ENTROPY_CHUNK_TOKENS)


def _scaling(source: Source) -> Scaling:
    """Division of the logits by the temperature.

    In place up to 0.8, a copy in 0.9.0, a copy in 0.9.1 unless the temperature is 1.
    """
    temperature = source.number("rollout.temperature", default=1.0)
    if not source.since("0.9.0"):
        return Scaling.IN_PLACE
    return Scaling.NONE if temperature == 1.0 and source.since("0.9.1") else Scaling.COPY


def _megatron(source: Source, model: ModelShape, engine: Engine) -> OutputHead:
    """Megatron's vocabulary-parallel head: float32 logits, an eager entropy, Triton when fused."""
    fused = source.flag("model.fused_head") and source.since("0.5.0") and engine.packed
    chunked = source.flag("actor.megatron.entropy_from_logits_with_chunking")
    size = source.integer("actor.megatron.entropy_from_logits_chunk_size", default=ENTROPY_CHUNK_TOKENS)
    source.number("rollout.temperature", default=1.0)
    return OutputHead(
        kind=HeadKind.FUSED_TRITON if fused else HeadKind.LOGITS,
        compiled=False,
        chunk_tokens=size if chunked else None,
        scaling=Scaling.IN_PLACE if source.since("0.6.0") else Scaling.NONE,
        logits_dtype=DType.FLOAT32,
        fused_cross_entropy=False,
        fusable=_fusable(source, model, engine),
    )
