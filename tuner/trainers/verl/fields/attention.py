"""Which attention an engine under FSDP runs, and which tokens of a row it pairs."""

from tuner.architectures import find_architecture
from tuner.trainers.verl.fields.role import EngineContext, names_attention
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Attention

_OF_TORCH, _EAGER, _FLASH = "sdpa", "eager", "flash_attention_2"


def attention_of(context: EngineContext, *, ulysses: int) -> Attention:
    """What attention pairs; others than PyTorch's and the eager one are taken for FlashAttention, and named.

    For PyTorch's own attention transformers makes a mask of packed rows, which its flash kernel does not
    take; older ones see one causal sequence. Padded rows have a mask in all of them. verl shares out the
    heads of FlashAttention alone (Ulysses), and its models with a vision tower call that themselves.

    Source: transformers 4.57.6, 5.24.0 ``masking_utils.py`` (``sdpa_mask``), there
    ``integrations/sdpa_attention.py``; verl 0.7.1 ``models/transformers/qwen2_vl.py``. Of packed rows
    ``tuner.trainers.verl.packed_attention``.
    """
    source, section = context.source, section_of(context)
    sees = find_architecture(context.model.architecture).tower is not None
    name = _attention_name(source, f"{context.switches}.attention", section)
    if ulysses > 1 or sees or name not in (_OF_TORCH, _EAGER):
        return Attention.SEQUENCES
    if name == _EAGER:
        return Attention.EAGER_ROWS
    packed = source.flag(f"{context.switches}.packed", default=source.engine_workers)
    return Attention.CAUSAL_ROWS if packed and mixes_sequences(source, section) else Attention.MASKED_ROWS


def attention_settable(context: EngineContext) -> bool:
    """Whether a key of the release's asks for the attention that runs, so that it can ask for another one."""
    return context.source.text(f"{context.switches}.attention", default="") in (_OF_TORCH, _EAGER)


def attention_name(attention: Attention) -> str:
    """What a key has to say to get an attention."""
    if attention is Attention.EAGER_ROWS:
        return _EAGER
    return _FLASH if attention is Attention.SEQUENCES else _OF_TORCH


def packs_by_flash(context: EngineContext) -> bool:
    """Whether sequences would be packed by functions of flash-attn, and nothing shows that it is there.

    Without a word on attention verl asks for FlashAttention, which needs the package whatever is packed. A
    job that asks for another one may run where there is none.

    Where the launch or a file around it says that the package cannot be had, packing needs it whatever
    attention is asked for, up to the release that can do without.

    Source: verl 0.6.0 and 0.7.1 ``workers/actor/dp_actor.py`` (``unpad_input``), which imports it in the
    first packed pass; 0.5.0 there, which imports it at once; 0.9.1 ``utils/attention_utils.py``.
    """
    source = context.source
    if source.since("0.9.1"):
        return False
    if source.copy.lacks_flash:
        return True
    if source.engine_workers or not source.since("0.6.0"):
        return False
    asked = _attention_name(source, f"{context.switches}.attention", section_of(context))
    return asked in (_OF_TORCH, _EAGER) and not source.copy.pins_flash


def brings_flash(context: EngineContext) -> bool:
    """Whether flash-attn is there whatever attention is asked for.

    verl up to 0.9.0 takes the functions that pack and unpack a batch from it: where sequences are packed, and
    in the engine workers always; or a file around the launch asks for a version of it.

    Source: verl 0.6.1 and 0.9.0 ``utils/attention_utils.py``, ``workers/utils/padding.py``; 0.9.1 there
    (``_fallback_unpad_input``).
    """
    source = context.source
    if source.copy.lacks_flash:
        return False
    packs = source.engine_workers or source.flag(f"{context.switches}.packed", default=False)
    if packs and not source.since("0.9.1"):
        return True
    return source.copy.pins_flash


def dense_rows_of(context: EngineContext) -> int | None:
    """The length from which rows that are one sequence to attention have a mask of all pairs; None: never."""
    from tuner.trainers.verl.packed_attention import masks_long_rows  # of few launches

    window = context.model.idle_window
    return window if window is not None and masks_long_rows(context.source.settings) else None


def leaves_single_rows_bare(source: ReleaseSettings) -> bool:
    """Whether transformers makes no mask of a packed row of one sequence: PyTorch runs its flash kernel.

    verl needs a transformers of series 5 since 0.9.0; those before always make one.

    Source: verl 0.9.0 ``METADATA`` (``transformers>=5.5.3``); transformers 4.57.6 and 5.24.0
    ``masking_utils.py`` (``find_packed_sequence_indices``).
    """
    return source.since("0.9.0")


def section_of(context: EngineContext) -> str:
    """Where a role's model is described."""
    return "critic.model" if context.role == "critic" else "actor_rollout_ref.model"


def mixes_sequences(source: ReleaseSettings, section: str) -> bool:
    """Whether packed sequences of a model would attend to each other, as far as anything says so."""
    if not names_attention(source.settings, section):
        return False
    from tuner.trainers.verl.packed_attention import row_attention  # few launches name an attention

    rows = row_attention(source.settings, source.version, section)
    return rows is not None and (rows.is_sure or rows.of_copy)


def _attention_name(source: ReleaseSettings, meaning: str, section: str) -> str:
    """The attention that a release's key asks for, or a copy's code; empty where neither asks for another."""
    told = source.text(meaning, default="")
    if told or source.program is not Program.PPO or not names_attention(source.settings, section):
        return told
    from tuner.trainers.verl.packed_attention import named_attention

    named = named_attention(source.settings, source.version, section)
    return "" if named is None else named[0]
