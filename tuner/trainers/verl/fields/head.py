"""Fields of the output head: how a release computes log-probabilities and entropy."""

from tuner.architectures import find_architecture
from tuner.dtypes import DType
from tuner.model_shape import ModelShape
from tuner.trainers.fields import (
    FLAG,
    Assignments,
    Field,
    Plain,
    Ruled,
    read_fields,
)
from tuner.trainers.verl.fields.context import ReleaseContext
from tuner.trainers.verl.releases import brings_our_head
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import ENTROPY_CHUNK_TOKENS, Backend, Engine, HeadKind, OutputHead, Scaling

_BACKENDS = {
    HeadKind.FUSED_TORCH: "torch",
    HeadKind.FUSED_TRITON: "triton",
    HeadKind.FUSED_LIGER: "liger",
}

#: What a release makes of the other fields; a proposal need not say it.
FOLLOWING = ("scaling", "logits_dtype", "fused_cross_entropy", "slices_response", "fusable", "rounding")
#: What follows packing as well: without it verl calls the plain function, neither compiled nor in chunks.
ENTROPY = ("compiled", "chunk_tokens", "checkpointed")


class HeadContext(ReleaseContext, frozen=True, kw_only=True):
    """What reading an output head takes."""

    model: ModelShape
    engine: Engine

    @property
    def megatron(self) -> bool:
        """Whether Megatron divides the vocabulary over its ranks."""
        return self.engine.backend is Backend.MEGATRON


def read_head(source: ReleaseSettings, model: ModelShape, engine: Engine) -> OutputHead:
    """The head of the actor, and of a reference that runs the same way.

    The reference computes no entropy, so that its own entropy switches mean nothing. flash-attn's
    cross entropy is taken to be installed, as verl's images have it, unless somebody says that it cannot be;
    Megatron has its own, over float32 logits.
    """
    context = HeadContext(source=source, model=model, engine=engine)
    dtype = engine.compute_dtype if source.since("0.6.1") else DType.BFLOAT16  # autocast's
    return OutputHead(
        **read_fields(HEAD, context),
        scaling=_scaling(context),
        clones_logits=context.megatron and source.since("0.6.0"),
        logits_dtype=DType.FLOAT32 if context.megatron else dtype,
        fused_cross_entropy=not context.megatron and not _lacks_flash_loss(source),
        loops_tokens=_loops_tokens(context),
        slices_response=_slices_response(context),
        fusable=_fusable(context),
        rounding=_rounding(source),
    )


# -- what the release makes of other settings -------------------------------------------------


def _scaling(context: HeadContext) -> Scaling:
    """Division of the logits by the temperature.

    In place up to 0.8, a copy in 0.9.0, a copy in 0.9.1 unless the temperature is 1. Megatron's head
    does it in place since 0.6.
    """
    source = context.source
    temperature = source.number("rollout.temperature", default=1.0)
    if context.megatron:
        return Scaling.IN_PLACE if source.since("0.6.0") else Scaling.NONE
    if not source.since("0.9.0"):
        return Scaling.IN_PLACE
    return Scaling.NONE if temperature == 1.0 and source.since("0.9.1") else Scaling.COPY


def _slices_response(context: HeadContext) -> bool:
    """Whether the actor's own workers compute with the logits of responses alone, as they do unpacked.

    The engines return those of all tokens, and Megatron's workers go another way.

    Source: verl 0.3.0.post1 ``workers/actor/dp_actor.py:155``, 0.4.1 line 265, 0.5.0 line 262, 0.6.1 line
    273, 0.7.1 line 369; 0.7.1 ``workers/engine/fsdp/transformer_impl.py:1068-1086``;
    ``trainer/ppo/prefix_grouper_utils.py`` of jobs that share prefixes, which have a copy in float32.
    """
    source = context.source
    unpacked = not context.megatron and not context.engine.packed
    return unpacked and not source.engine_workers and not source.flag("actor.shared_prefixes")


def _loops_tokens(context: HeadContext) -> bool:
    """Whether the log-probability of each packed token is computed by itself, without flash-attn's kernel.

    Source: verl 0.3.0.post1 to 0.9.1 ``utils/torch_functional.py`` (``logprobs_from_logits_v2``), which goes
    row by row of logits in 16 bits; a row of packed logits is a token.
    """
    packed = context.engine.packed and not context.megatron
    in_16_bits = context.engine.compute_dtype is not DType.FLOAT32
    return _lacks_flash_loss(context.source) and packed and in_16_bits


def _lacks_flash_loss(source: ReleaseSettings) -> bool:
    """Whether flash-attn's cross entropy is not there, or the launch switches it off.

    Source: verl 0.9.0 and 0.9.1 ``utils/torch_functional.py`` (``logprobs_from_logits``).
    """
    off = ("VERL_DISABLE_FLASH_ATTN_CE", "1") in (
        (one.name, one.value) for one in source.settings.environment
    )
    return source.copy.lacks_flash or (off and source.since("0.9.0"))


def _fusable(context: HeadContext) -> tuple[HeadKind, ...]:
    """Fused heads that compute the right thing here; that of ``tuner.inside_verl`` has none of verl's faults.

    * The heads multiply by ``lm_head`` alone: models that cap or scale their logits afterwards lose that.
    * They read ``lm_head.weight`` as it stands, which FSDP2 has sharded where it is a unit of its own
      (verl #7520).
    * Up to 0.8 Liger's patch drops their gradients (verl #6913). Layers that Megatron fuses are its own:
      its fused head takes what the decoder gives, whatever kernels made that (verl 0.5.0 to 0.8.0
      ``models/mcore/model_forward_fused.py``, ``_fused_GPTModel_forward``).
    * Up to 0.7 they shift the labels within a rank's share of a sequence that several ranks share, so that
      the last token of each share gets a wrong one (verl #6068).
    * The forward pass for text takes no images: a model with a tower needs one of its own, see
      :func:`fused_drops_images`.
    * The sum of squared probabilities needs all logits.
    * The workers of a copy may need what the model's own forward pass takes or gives, and those of one from
      before 0.4.0 have no fused head.
    * Fine-tuning before 0.7.1 gives the model a fused forward pass and reads logits from it all the same.
    * Triton's kernel came with 0.4.1. It takes widths in multiples of 128; before 0.7.1 it counts columns
      beyond the vocabulary unless that is a multiple of 1024 (verl #5349).
    """
    source, model, engine = context.source, context.model, context.engine
    if source.program.fine_tunes and not source.since("0.7.1"):
        return ()
    if not engine.packed or find_architecture(model.architecture).transforms_logits:
        return ()
    if source.flag("actor.squares") or source.copy.has_own_forward:
        return ()
    if source.key("model.fused_head") is None:
        return ()
    if _ours(source):
        return (HeadKind.FUSED_TUNER,)
    if engine.separate_embedding_units:
        return ()
    if fused_drops_images(source, model, engine):
        return ()
    if engine.fused_layers and not context.megatron and not source.since("0.9.0"):
        return ()
    if engine.parallel.ulysses > 1 and not source.since("0.8.0"):
        return ()
    triton = source.since("0.4.1") and model.hidden % 128 == 0
    triton = triton and (source.since("0.7.1") or model.vocab % 1024 == 0)
    kinds = (HeadKind.FUSED_TRITON,) if triton else ()
    if context.megatron:
        return kinds if source.since("0.5.0") else ()
    return (*kinds, HeadKind.FUSED_TORCH) if _rounding(source) else (HeadKind.FUSED_TORCH, *kinds)


def fused_drops_images(source: ReleaseSettings, model: ModelShape, engine: Engine) -> bool:
    """Whether the fused forward pass that a release gives a model leaves out its vision tower.

    Source: verl 0.7.1 ``models/transformers/dense_common.py`` (``forward_with_torch_backend`` takes pixels
    among ``loss_kwargs`` and hands on none of them). Megatron's hands them on.
    """
    architecture = find_architecture(model.architecture)
    if architecture.tower is None or engine.backend is Backend.MEGATRON:
        return False
    since = architecture.verl_fused_images_since
    return since is None or not source.since(since)


def _rounding(source: ReleaseSettings) -> tuple[HeadKind, ...]:
    """PyTorch's fused head returns log-probabilities in the dtype of the hidden states before 0.8.0.

    Source: verl 0.7.1 ``utils/experimental/torch_functional.py`` (``token_log_probs.to(orig_dtype)``),
    against 0.8.0, which asserts float32; verl #5662.
    """
    return () if source.since("0.8.0") else (HeadKind.FUSED_TORCH,)


# -- which head -------------------------------------------------------------------------------


def _ours(source: ReleaseSettings) -> bool:
    """Whether the workers import the head that takes the place of verl's fused ones."""
    return brings_our_head(source.value("model.external_library"), source.version)


def _kind(context: HeadContext) -> HeadKind:
    """The kind of head; Megatron has one fused kind, and an unknown word means PyTorch's."""
    source, fused = context.source, context.source.flag("model.fused_head")
    if context.megatron:
        fused = fused and source.since("0.5.0") and context.engine.packed
        kind = HeadKind.FUSED_TUNER if _ours(source) else HeadKind.FUSED_TRITON
        return kind if fused else HeadKind.LOGITS
    if fused and _ours(source):
        return HeadKind.FUSED_TUNER
    word = source.text("model.fused_backend", default="torch")
    named = next((kind for kind, name in _BACKENDS.items() if name == word), HeadKind.FUSED_TORCH)
    return named if fused else HeadKind.LOGITS


def _set_kind(context: HeadContext, head: OutputHead) -> Assignments:
    backend = None if context.megatron else _BACKENDS.get(head.kind)
    named = () if backend is None else (("model.fused_backend", backend),)
    return (("model.fused_head", head.kind in (*_BACKENDS, HeadKind.FUSED_TUNER)), *named)


# -- entropy ----------------------------------------------------------------------------------


def _compiles(context: HeadContext) -> bool:
    return not context.megatron and context.engine.packed


def _checkpointed(context: HeadContext) -> bool:
    if context.megatron:
        return False
    demanded = context.source.flag("actor.entropy_checkpointing")
    return demanded and (context.engine.packed or context.source.since("0.5.0"))


def _set_checkpointed(context: HeadContext, head: OutputHead) -> Assignments:
    return (("actor.entropy_checkpointing", head.checkpointed),)


def _chunk_meanings(context: HeadContext) -> tuple[str, str]:
    """The switch of chunks, and their size."""
    if context.megatron:
        section = "actor.megatron"
        return f"{section}.entropy_from_logits_with_chunking", f"{section}.entropy_from_logits_chunk_size"
    return "actor.entropy_chunking", "actor.fsdp.entropy_from_logits_chunk_size"


def _chunk(context: HeadContext) -> int | None:
    """Tokens of a chunk; the size is not forwarded through the checkpoint."""
    source, (switch, size) = context.source, _chunk_meanings(context)
    if context.megatron:
        chunk = source.integer(size, default=ENTROPY_CHUNK_TOKENS)
        return chunk if source.flag(switch) else None
    if not context.engine.packed or not source.flag(switch):
        return None
    if source.flag("actor.entropy_checkpointing"):
        return ENTROPY_CHUNK_TOKENS
    return source.integer(size, default=ENTROPY_CHUNK_TOKENS)


def _set_chunk(context: HeadContext, head: OutputHead) -> Assignments:
    switch, size = _chunk_meanings(context)
    sized = head.chunk_tokens is not None and context.source.key(size) is not None
    return (
        (switch, head.chunk_tokens is not None),
        *(((size, head.chunk_tokens),) if sized else ()),
    )


HEAD: tuple[Field[HeadContext], ...] = (
    Ruled("kind", _kind, _set_kind),
    Plain("compiled", "actor.torch_compile", FLAG, True, heeded=_compiles, otherwise=False),
    Ruled("checkpointed", _checkpointed, _set_checkpointed),
    Ruled("chunk_tokens", _chunk, _set_chunk),
)
