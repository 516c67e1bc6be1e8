"""Attention over packed sequences by PyTorch's own copy of flash attention, for transformers' models.

N: tokens of all sequences. A, K: heads of queries, of keys and values. D: head size.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tuner.validate.training.worker.ulysses import Sharing

NAME = "tuner_packed"  # what models ask transformers for
TOWER = "tuner_flash_within_images"  # vision towers; to what has flash in its name images go all together
_ALONE = Sharing()


@dataclass(frozen=True, kw_only=True)
class _Packed:
    """Where the sequences of a micro-batch begin."""

    starts: Tensor  # int32, one more than sequences
    lengths: tuple[int, ...]
    sharing: Sharing
    repeats_keys: bool  # to as many heads as queries have, as verl's own attention of Qwen2-VL does


# Not a context variable: layers are recomputed in autograd's own thread.
_current: _Packed | None = None


@contextmanager
def packed(
    lengths: Sequence[int],
    device: torch.device,
    sharing: Sharing = _ALONE,
    *,
    repeats_keys: bool = False,
) -> Iterator[None]:
    """Attention within sequences of these lengths, forward and backward; ranks may share their tokens."""
    global _current
    padding = sharing.padding(sum(lengths))
    lengths = [*lengths, padding] if padding else lengths  # a sequence of its own
    ends = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    _current = _Packed(
        starts=ends.to(device), lengths=tuple(lengths), sharing=sharing, repeats_keys=repeats_keys
    )
    try:
        yield
    finally:
        _current = None


def register() -> None:
    """Make :data:`NAME` and :data:`TOWER` attentions of transformers, without masks."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attend)
    AttentionInterface.register(TOWER, _attend_within_images)


def attend_within_images(model: Any) -> None:
    """Let the vision tower of a built model attend by :data:`TOWER`.

    While a model is built, transformers looks for a kernel of such a name.
    """
    vision = getattr(model.config, "vision_config", None)
    if vision is not None:
        vision._attn_implementation = TOWER


def _attend_within_images(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Three of ``[1, A, N, D]``, packed images or windows of them, or ``[images, A, N, D]``.

    The result is ``[1, N, A, D]`` or ``[images, N, A, D]``.
    """
    if cu_seq_lens_q is None:
        return _batch_of_images(query, key, value, scaling), None
    assert max_length_q is not None
    query_NAD, key_NAD, value_NAD = (states.transpose(1, 2).squeeze(0) for states in (query, key, value))
    if not query.is_cuda:
        lengths = cu_seq_lens_q.diff().tolist()
        attended = _one_by_one(query_NAD, key_NAD, value_NAD, lengths, scaling, causal=False)
    else:
        longest, starts = int(max_length_q), cu_seq_lens_q
        attended = torch.ops.aten._flash_attention_forward(
            query_NAD, key_NAD, value_NAD, starts, starts, longest, longest, 0.0, False, False, scale=scaling
        )[0]
    return attended.unsqueeze(0), None


def _batch_of_images(query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """``[images, N, A, D]``, of three of ``[images, A, N, D]``."""
    if not query.is_cuda:
        return functional.scaled_dot_product_attention(query, key, value, scale=scaling).transpose(1, 2)
    states = (states_of_one.transpose(1, 2) for states_of_one in (query, key, value))
    length = query.shape[2]
    attended: Tensor = torch.ops.aten._flash_attention_forward(
        *states, None, None, length, length, 0.0, False, False, scale=scaling
    )[0]
    return attended


def _repeated(states_1KND: Tensor, times: int) -> Tensor:
    """``[1, A, N, D]``: every head of keys or values as often as queries share it."""
    batch, heads, tokens, width = states_1KND.shape
    repeated = states_1KND[:, :, None].expand(batch, heads, times, tokens, width)
    return repeated.reshape(batch, heads * times, tokens, width)


def _attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    position_ids: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """``[1, A, N, D]``, twice ``[1, K, N, D]``; the result is ``[1, N, A, D]``.

    Where ranks share the sequences, N is one rank's part of them. A cap on the scores and attention sinks
    are left out: they live within the kernel.
    """
    if _current is None:
        raise RuntimeError("attention outside of a packed micro-batch")
    if _current.repeats_keys and key.shape[1] != query.shape[1]:
        key, value = (_repeated(states, query.shape[1] // key.shape[1]) for states in (key, value))
        if len(_current.lengths) > 1:
            key, value = (states.transpose(1, 2).contiguous().transpose(1, 2) for states in (key, value))
    query_NAD, key_NKD, value_NKD = (states.transpose(1, 2).squeeze(0) for states in (query, key, value))
    width = value_NKD.shape[-1]
    if width != query_NAD.shape[-1]:  # latent attention: the kernel wants one head size
        value_NKD = functional.pad(value_NKD, (0, query_NAD.shape[-1] - width))
    states = query_NAD, key_NKD, value_NKD
    attended_NAD = _shared(*states, position_ids, _current, scaling, sliding_window)
    return attended_NAD[..., :width].unsqueeze(0), None


def _shared(
    query_NAD: Tensor,
    key_NKD: Tensor,
    value_NKD: Tensor,
    position_ids: Tensor | None,
    sequences: _Packed,
    scaling: float | None,
    window: int | None,
) -> Tensor:
    sharing = sequences.sharing
    if sharing.ranks == 1:
        return _varlen(query_NAD, key_NKD, value_NKD, sequences, scaling, window)
    query, key, value = (sharing.whole_sequence(states) for states in (query_NAD, key_NKD, value_NKD))
    if position_ids is not None:  # verl finds the sequences in them, in every layer; here they are known
        sharing.gather(position_ids, dim=-1)
    return sharing.all_heads(_varlen(query, key, value, sequences, scaling, window))


def _varlen(
    query_NAD: Tensor,
    key_NKD: Tensor,
    value_NKD: Tensor,
    sequences: _Packed,
    scaling: float | None,
    window: int | None,
) -> Tensor:
    if not query_NAD.is_cuda:
        return _one_by_one(query_NAD, key_NKD, value_NKD, sequences.lengths, scaling)
    longest = max(sequences.lengths)
    limited = {} if window is None else {"window_size_left": window - 1, "window_size_right": 0}
    attended: Tensor = torch.ops.aten._flash_attention_forward(
        query_NAD,
        key_NKD,
        value_NKD,
        sequences.starts,
        sequences.starts,
        longest,
        longest,
        0.0,
        True,
        False,
        scale=scaling,
        **limited,
    )[0]
    return attended


def _one_by_one(
    query_NAD: Tensor,
    key_NKD: Tensor,
    value_NKD: Tensor,
    lengths: Sequence[int],
    scaling: float | None,
    *,
    causal: bool = True,
) -> Tensor:
    """What a CPU computes it with; windows are left out."""
    queries, keys, values = (
        torch.split(states.transpose(0, 1)[None], list(lengths), dim=2)  # batched, it is no product of all
        for states in (query_NAD, key_NKD, value_NKD)
    )
    attended = [
        functional.scaled_dot_product_attention(
            query, key, value, is_causal=causal, scale=scaling, enable_gqa=True
        )
        for query, key, value in zip(queries, keys, values, strict=True)
    ]
    return torch.cat(attended, dim=2).squeeze(0).transpose(0, 1)
