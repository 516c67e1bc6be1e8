"""The batch of an update on one rank, as verl's trainer hands it to its workers.

B: sequences of one rank. P: tokens of a prompt. R: tokens of a response.
"""

from math import log
from typing import Any

import torch

from tuner.validate.training.settings import PassSettings
from tuner.validate.training.worker.verl_build import verl


def advantages(settings: PassSettings, ranks: int) -> torch.Tensor:
    """One for each sequence of all ranks, none of them zero: ``[ranks * B]``, the same on every rank."""
    count = ranks * settings.micro_batches * settings.sequences
    return torch.randn(count, generator=torch.Generator().manual_seed(1))


def without_advantage(values: torch.Tensor, share: float) -> torch.Tensor:
    """Values of sequences with a share of them zero, dealt out at random as balancing by length does."""
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(2))
    return values.index_fill(0, order[: round(share * len(values))], 0.0)


def batch(settings: PassSettings, engine: Any, vocabulary: int, share: float) -> Any:
    """All sequences of one rank: of one length, half of it prompt, as packed ids beside whole tensors.

    Args:
        settings: of the update.
        engine: verl's.
        vocabulary: tokens that there are.
        share: of the responses have no advantage.

    Source: verl 0.9.1 and 0.7.1 ``workers/utils/padding.py`` (``left_right_2_no_padding``).
    """
    ranks, rank = engine.get_data_parallel_size(), engine.get_data_parallel_rank()
    count, length = settings.micro_batches * settings.sequences, settings.sequence_length
    response = length - length // 2
    generator = torch.Generator().manual_seed(3 + rank)
    tokens_BL = torch.randint(vocabulary, (count, length), generator=generator)
    own_B = without_advantage(advantages(settings, ranks), share)[rank * count :][:count]
    mask_BR = torch.ones(count, response, dtype=torch.int64)
    return verl("utils.tensordict_utils").get_tensordict(
        {
            "input_ids": _nested(tokens_BL),
            "position_ids": _nested(torch.arange(length).expand(count, length)),
            "attention_mask": torch.ones(count, length, dtype=torch.int64),
            "prompts": tokens_BL[:, : length - response].contiguous(),
            "responses": tokens_BL[:, length - response :].contiguous(),
            "response_mask": mask_BR,
            "loss_mask": mask_BR.clone(),
            # Near what random weights give, so that few tokens are clipped.
            "old_log_probs": torch.full((count, response), -log(vocabulary)),
            "advantages": own_B[:, None].expand(count, response).contiguous(),
        },
        {
            "use_remove_padding": True,
            "use_dynamic_bsz": False,
            "micro_batch_size_per_gpu": settings.sequences,
            "calculate_entropy": settings.entropy,
            "temperature": settings.temperature,
            "max_response_len": response,
            "global_batch_size": ranks * count,
            "mini_batch_size": ranks * count,
            "epochs": 1,
            "seed": 1,
            "dataloader_kwargs": {"shuffle": False},
        },
    )


def _nested(rows_BL: torch.Tensor) -> torch.Tensor:
    return torch.nested.as_nested_tensor(list(rows_BL.contiguous()), layout=torch.jagged)
