"""Which token each position of a packed row of tokens predicts."""

import torch
from torch import Tensor


def next_tokens(input_ids: Tensor, positions: int, shift_labels: Tensor | None) -> Tensor:
    """The labels of a forward pass: the tokens that follow, on the rows that this rank's head sees.

    B: sequences, 1 where they are packed. S: positions of this rank.

    verl gives them from 0.8.0 on. Before that its fused heads roll what they have of the tokens, which
    with Ulysses gives the last position of a rank its own first token; here the next rank's is fetched.

    Args:
        input_ids: ``[B, S]``, or, of a model that slices its embeddings, all the ranks' positions.
        positions: S, the rows of the hidden states.
        shift_labels: ``[B, S]`` where verl gives them.

    Returns:
        ``[B, S]``; behind the last token of all stands an arbitrary one.

    Source: verl 0.9.1, ``prepare_model_inputs`` of ``verl/workers/engine/fsdp/transformer_impl.py``.
    """
    if shift_labels is not None:
        return shift_labels
    rolled = torch.roll(input_ids, shifts=-1, dims=-1)
    from verl.utils import ulysses

    ranks = ulysses.get_ulysses_sequence_parallel_world_size()
    if ranks == 1:
        return rolled
    rank = ulysses.get_ulysses_sequence_parallel_rank()
    if input_ids.shape[-1] != positions:
        return rolled[..., rank * positions : (rank + 1) * positions]
    firsts = [torch.empty_like(rolled[..., -1]) for _ in range(ranks)]
    torch.distributed.all_gather(
        firsts, rolled[..., -1].contiguous(), group=ulysses.get_ulysses_sequence_parallel_group()
    )
    rolled[..., -1] = firsts[(rank + 1) % ranks]
    return rolled
