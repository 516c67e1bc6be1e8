"""Whether the sequences of a packed row attend to each other, by the attention and transformers that run.

A packed row reaches the model with positions that begin anew and without a mask. FlashAttention makes
sequences of the positions. Other attention is given a mask by transformers: since 4.53.1, under torch 2.6 or
newer, one of blocks by the positions; before, a causal one of the whole row, or none and ``is_causal``.

Source: transformers 4.47.1 to 4.52.4 ``models/qwen2/modeling_qwen2.py`` (``_update_causal_mask``, which sees
no positions), 4.53.0 and 4.53.1 ``masking_utils.py`` (``find_packed_sequence_indices``,
``_is_torch_greater_or_equal_than_2_6``); verl 0.3.0.post1 to 0.9.1 ``workers/actor/dp_actor.py`` and
``workers/engine/fsdp/transformer_impl.py`` (``attention_mask=None``).
"""

from collections.abc import Callable

from msgspec import Struct

from tuner.inputs.settings import Settings
from tuner.trainers.verl.releases import reaches
from tuner.versions import at_least

BLOCKS_SINCE, TORCH_SINCE = "4.53.1", "2.6.0"
_WINDOW_SINCE, _WINDOW_BEFORE = "4.49.0", "4.53.0"
OTHER = ("sdpa", "eager")  # attention of a whole row

_WORKERS = "fsdp_workers"
_NAME, _FLASH = "attn_implementation", "flash_attention_2"
_READ_SINCE = "0.6.1"  # before, the workers ask for FlashAttention whatever is set


class RowAttention(Struct, frozen=True, kw_only=True):
    """Attention that pairs tokens of different sequences of a packed row, for certain or maybe."""

    name: str  # sdpa or eager
    key: str  # that asks for it; empty where the copy's code does
    transformers: str  # that the files around the launch name; empty where they name none
    torch: str  # the same, where it is this that is too old
    of_copy: bool  # a copy of the trainer would run, maybe with libraries of its time

    @property
    def is_sure(self) -> bool:
        """Whether the files around the launch say that it is so."""
        return bool(self.transformers or self.torch)


def row_attention(settings: Settings, version: str, section: str) -> RowAttention | None:
    """The attention of a model that would not tell packed sequences apart; None where it does.

    Nobody may say which transformers there is; vLLM asks for one that is new enough since 0.10.0.

    Args:
        settings: of the job.
        version: the release.
        section: of the model, such as ``actor_rollout_ref.model``.
    """
    asked = named_attention(settings, version, section)
    if asked is None or asked[0] not in OTHER:
        return None
    newest = settings.newest_required
    older = libraries_without_blocks(newest)
    named = {name: "" if newest is None else newest(name) or "" for name in ("transformers", "vllm")}
    if not any(older) and (named["transformers"] or brings_blocks(named["vllm"])):
        return None
    name, key = asked
    transformers, torch = older
    of_copy = settings.has_statement is not None
    return RowAttention(name=name, key=key, transformers=transformers, torch=torch, of_copy=of_copy)


def libraries_without_blocks(newest: Callable[[str], str | None] | None) -> tuple[str, str]:
    """The transformers and the torch that tell sequences of a row apart by FlashAttention alone.

    Args:
        newest: the newest version of a package that the files around the launch ask for.

    Returns:
        Their versions, each empty where it is new enough or nothing names it.
    """
    transformers = "" if newest is None else newest("transformers") or ""
    torch = "" if newest is None else newest("torch") or ""
    return (
        "" if at_least(transformers or "0", BLOCKS_SINCE) else transformers,
        "" if at_least(torch or TORCH_SINCE, TORCH_SINCE) else torch,
    )


def masks_long_rows(settings: Settings) -> bool:
    """Whether a row as long as the configuration's sliding window has a mask that says nothing but causal.

    The window that no layer uses is looked at all the same when transformers decides whether it can do
    without a mask; its configuration keeps it since 4.49.

    Source: transformers 4.49.0 to 4.52.4 ``modeling_attn_mask_utils.py`` (``_ignore_causal_mask_sdpa``) and
    ``models/qwen2/modeling_qwen2.py``, ``models/qwen3`` there (``_update_causal_mask``), of which 4.48.3 asks
    for no window; their sparse siblings drop it in ``configuration_qwen2_moe.py``.
    """
    newest = settings.newest_required
    version = "" if newest is None else newest("transformers") or ""
    return bool(version) and at_least(version, _WINDOW_SINCE) and not at_least(version, _WINDOW_BEFORE)


def brings_blocks(vllm: str) -> bool:
    """Whether a version of vLLM asks for a transformers and a torch that tell sequences of a row apart.

    Source: vLLM 0.10.0 (``transformers>=4.53.2``, ``torch==2.7.1``), 0.9.2 (``transformers>=4.51.1``).
    """
    return bool(vllm) and at_least(vllm, "0.10.0")


def named_attention(settings: Settings, version: str, section: str) -> tuple[str, str] | None:
    """The attention that a model is loaded with, and the key that says so; None where no one says another."""
    has = settings.has_statement
    own, overridden = f"{section}.{_NAME}", f"{section}.override_config.{_NAME}"
    read = reaches(version, _READ_SINCE) or _reads_override(settings)
    if read and settings.get(overridden) is not None:
        return str(settings.get(overridden)), overridden
    if has is None:
        return None
    if settings.get(own) is not None and has(f"{_NAME} config model get", _WORKERS, "from_pretrained"):
        return str(settings.get(own)), own
    if has(_FLASH, _WORKERS) or not has("from_pretrained", _WORKERS):
        return None
    named = next((name for name in OTHER if has(f"{_NAME} {name}", _WORKERS)), None)
    if named is None and has(_NAME, _WORKERS):
        return None  # by what, its statement does not say
    return named or OTHER[0], ""  # which transformers takes by itself


def _reads_override(settings: Settings) -> bool:
    """Whether the workers of a copy read the key that releases read since 0.6.1."""
    has = settings.has_statement
    sections = ("override_config", "override_model_config")
    return has is not None and any(has(f"{_NAME} {section} get", _WORKERS) for section in sections)
