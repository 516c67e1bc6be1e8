"""Which attention an engine under FSDP runs, and which tokens of a row it pairs."""

from tuner.architectures import find_architecture
from tuner.trainers.verl.fields.role import EngineContext, names_attention
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Attention

_OF_TORCH = "sdpa"


def attention_of(context: EngineContext, *, ulysses: int) -> Attention:
    """What attention pairs; other implementations than PyTorch's are taken for FlashAttention, and named.

    For PyTorch's own attention transformers makes a mask of packed rows, which its flash kernel does not
    take; older ones see one causal sequence. Padded rows have a mask in all of them. verl shares out the
    heads of FlashAttention alone (Ulysses), and its models with a vision tower call that themselves.

    Source: transformers 4.57.6, 5.24.0 ``masking_utils.py`` (``sdpa_mask``), there
    ``integrations/sdpa_attention.py``; verl 0.7.1 ``models/transformers/qwen2_vl.py``. Of packed rows
    ``tuner.trainers.verl.packed_attention``.
    """
    source, section = context.source, section_of(context)
    sees = find_architecture(context.model.architecture).tower is not None
    if ulysses > 1 or sees or _attention_name(source, f"{context.switches}.attention", section) != _OF_TORCH:
        return Attention.SEQUENCES
    packed = source.flag(f"{context.switches}.packed", default=source.engine_workers)
    return Attention.CAUSAL_ROWS if packed and mixes_sequences(source, section) else Attention.MASKED_ROWS


def dense_rows_of(context: EngineContext) -> int | None:
    """The length from which rows that are one sequence to attention have a mask of all pairs; None: never."""
    from tuner.trainers.verl.packed_attention import masks_long_rows  # of few launches

    window = context.model.idle_window
    return window if window is not None and masks_long_rows(context.source.settings) else None


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
