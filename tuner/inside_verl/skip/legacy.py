"""The skip in verl's legacy FSDP actor: ``dp_actor.py``, up to 0.7.1.

Its loss is divided micro-batch by micro-batch, and each micro-batch counts by its sequences: what a token
weighs depends on what it shares a micro-batch with. So the weight that each sequence would have had is
computed from the micro-batches that verl would have made, and its advantages are scaled to that weight.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tuner.inside_verl.losses import token_weights
from tuner.inside_verl.settings import SKIP_ZERO_ADVANTAGE
from tuner.inside_verl.skip.exact import check_batch, check_loss
from tuner.inside_verl.skip.exchange import (
    Agreed,
    Ranks,
    RankSequences,
    agree,
    handed_over,
    has_advantage,
    measures,
)
from tuner.zero_advantage import ONE_STEP

DP_ACTOR = "verl.workers.actor.dp_actor"
_SEQUENCE_LOSSES = ("gspo", "sapo")  # up to 0.7.1 always seq-mean-token-mean, whatever loss_agg_mode says
_WEIGHT = "tuner_weight"  # a field of the batch: what a token of the sequence weighs in the loss


class MiniBatches:
    """A batch that is already split, as ``update_policy`` asks a ``DataProto`` for its mini-batches."""

    def __init__(self, whole: Any, parts: list[Any]) -> None:
        self.meta_info = whole.meta_info
        self.batch = whole.batch
        self.non_tensor_batch = whole.non_tensor_batch
        self.parts = parts

    def select(self, **keys: Any) -> "MiniBatches":
        """The mini-batches with some of their fields alone."""
        return MiniBatches(self, [part.select(**keys) for part in self.parts])

    def split(self, _size: int) -> list[Any]:
        """The mini-batches, whatever their size."""
        return self.parts


def update_policy(original: Callable[..., Any]) -> Callable[..., Any]:
    """``DataParallelPPOActor.update_policy`` on the sequences that have an advantage."""

    @functools.wraps(original)
    def skipping(self: Any, data: Any) -> Any:
        check_loss(self.config)
        check_batch(self.config, data.batch.keys(), padded=True)
        fold = SKIP_ZERO_ADVANTAGE.read() == ONE_STEP
        size = len(data) if fold else self.config.ppo_mini_batch_size
        parts, agreed = _remaining_mini_batches(self, data, size)
        for part in parts:
            _weigh(self, part)
        metrics = original(self, MiniBatches(data, parts))
        metrics.update(measures(agreed, repeats=self.config.ppo_epochs))
        data.meta_info["global_token_num"] = agreed.run_lengths  # for the MFU: what ran
        return metrics

    return skipping


def _remaining_mini_batches(actor: Any, data: Any, size: int) -> tuple[list[Any], Agreed]:
    """The mini-batches of what this rank runs, each sequence with its weight, and what all agreed on."""
    mask = data.batch["response_mask"]
    weights = torch.cat(
        [_weights(actor, data[start : start + size], size) for start in range(0, len(data), size)]
    )
    tokens = mask.sum(dim=1).tolist()
    held = RankSequences(
        has_advantage=has_advantage(list(data.batch["advantages"]), list(mask)),
        tokens=tokens,
        lengths=data.batch["attention_mask"].sum(dim=1).tolist(),
        mini_batch=[row // size for row in range(len(tokens))],
    )
    ranks = Ranks(copies=actor.ulysses_sequence_parallel_size)
    # What the loss is divided by is in the weights, and a last micro-batch may be smaller than the others.
    agreed = agree(held, ranks, mode=SKIP_ZERO_ADVANTAGE.read() or "", loss_agg_mode="token-sum")
    fields = {**dict(data.batch.items()), _WEIGHT: weights.to(mask.device)}
    arrays = data.non_tensor_batch

    def take(indices: list[int]) -> "_Rows":
        chosen = torch.tensor(indices, dtype=torch.int64)
        return _Rows(
            {key: value.index_select(0, chosen.to(value.device)) for key, value in fields.items()},
            {key: value[chosen.numpy()] for key, value in arrays.items()},
        )

    joined, places = handed_over(agreed, ranks, take, functools.partial(_join, device=mask.device))
    return [joined.proto(type(data), place, data.meta_info) for place in places], agreed


class _Rows:
    """Sequences as tensors and as arrays of objects; tensors of a GPU are sent by way of the host."""

    def __init__(self, tensors: dict[str, torch.Tensor], arrays: dict[str, Any]) -> None:
        self.tensors = tensors
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.tensors[_WEIGHT])

    def __getstate__(self) -> dict[str, Any]:
        return {"tensors": {key: value.cpu() for key, value in self.tensors.items()}, "arrays": self.arrays}

    def proto(self, kind: Any, place: list[int], meta_info: dict[str, Any]) -> Any:
        """A ``DataProto`` of the sequences at these places."""
        chosen = torch.tensor(place, dtype=torch.int64)
        return kind.from_dict(
            {key: value.index_select(0, chosen.to(value.device)) for key, value in self.tensors.items()},
            {key: value[chosen.numpy()] for key, value in self.arrays.items()},
            meta_info=meta_info,
        )


def _join(parts: list[_Rows], device: torch.device) -> _Rows:
    import numpy as np

    return _Rows(
        {key: torch.cat([part.tensors[key].to(device) for part in parts]) for key in parts[0].tensors},
        {key: np.concatenate([part.arrays[key] for part in parts]) for key in parts[0].arrays},
    )


def _micro_batches(actor: Any, mini_batch: Any) -> Iterator[Sequence[int]]:
    """Which sequences verl puts into each micro-batch of a mini-batch."""
    settings = actor.config
    if settings.use_dynamic_bsz:
        most = settings.ppo_max_token_len_per_gpu * actor.ulysses_sequence_parallel_size
        yield from sys.modules[DP_ACTOR].prepare_dynamic_batch(mini_batch, max_token_len=most)[1]
        return
    size = settings.ppo_micro_batch_size_per_gpu
    for start in range(0, len(mini_batch), size):
        yield range(start, min(start + size, len(mini_batch)))


def _weights(actor: Any, mini_batch: Any, size: int) -> torch.Tensor:
    """What a token of each sequence weighs in the gradient of a mini-batch: (sequences,) float64.

    Args:
        actor: verl's actor.
        mini_batch: verl's ``DataProto`` of it.
        size: sequences that verl takes it to have, by which it divides.
    """
    settings = actor.config
    mask = mini_batch.batch["response_mask"].cpu()
    weights = torch.zeros(len(mask), dtype=torch.float64)
    for members in _micro_batches(actor, mini_batch):
        rows = torch.tensor(list(members), dtype=torch.int64)
        if settings.use_dynamic_bsz:
            share = len(rows) / size
        else:
            share = 1 / (size // settings.ppo_micro_batch_size_per_gpu)
        weights[rows] = share * _token_weights(mask[rows], settings)
    return weights


def _token_weights(mask: torch.Tensor, settings: Any) -> torch.Tensor:
    """What verl multiplies the losses of a micro-batch by: the same at all tokens of a sequence."""
    loss = settings.policy_loss.get("loss_mode", "vanilla")
    mode = "seq-mean-token-mean" if loss in _SEQUENCE_LOSSES else settings.loss_agg_mode
    weights = token_weights(mask, mode, torch.float64)
    # Early releases divide by 0 where a sequence has no token in the loss; nothing is multiplied by that.
    return torch.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0).amax(dim=1)


def _weigh(actor: Any, mini_batch: Any) -> None:
    """Scales the advantages of a mini-batch, so that each sequence weighs what it did in the whole one."""
    size = actor.config.ppo_mini_batch_size
    wanted = mini_batch.batch[_WEIGHT]
    given = _weights(actor, mini_batch, size).to(wanted.device)
    factor = torch.where(given > 0, wanted / given, 0.0)
    advantages = mini_batch.batch["advantages"]
    mini_batch.batch["advantages"] = (advantages * factor.unsqueeze(1)).to(advantages.dtype)
