"""A model sharded as NeMo Automodel shards it, and the passes that NeMo-RL makes over it.

Written after the sources below, since neither package is where this runs: layers are units that fetch the
next one, the last layer and the root stay gathered behind the forward pass, masters are float32, outputs are
cast to float32. Log-probabilities are a log-softmax of all columns, one sequence of a packed row after the
other.

Source: NeMo Automodel at 24b47e8 ``components/distributed/parallelizer.py``
(``DefaultParallelizationStrategy``, ``apply_fsdp2_sharding_recursively``); NeMo-RL v0.7.0
``models/automodel/train.py`` (``automodel_forward_backward``, ``_compute_local_logprobs``),
``distributed/model_utils.py`` (``get_next_token_logprobs_from_logits``), ``algorithms/loss/wrapper.py``
(``SequencePackingLossWrapper``).
"""

import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from tests.measure.verl_engine.model import random_model, write_config

_BACKWARD_DEPTH = 2  # layers that are fetched ahead


def sharded_model(name: str, device: torch.device, *, recompute: bool, tiny: bool) -> Any:
    """A model of a profile with random weights, on the device."""
    from transformers import AutoConfig

    with tempfile.TemporaryDirectory() as folder:
        write_config(name, folder, shrink=tiny)
        config = AutoConfig.from_pretrained(folder, attn_implementation="sdpa")
    model = random_model(config, torch.float32).to(device)
    model.config.use_cache = False
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
        model.enable_input_require_grads()
    model.train()
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32
    )
    layers = list(model.model.layers)
    for number, layer in enumerate(layers):
        fully_shard(layer, mp_policy=policy, reshard_after_forward=number < len(layers) - 1)
    for number, layer in enumerate(layers):
        if number + 1 < len(layers):
            layer.set_modules_to_forward_prefetch([layers[number + 1]])
        if number:
            layer.set_modules_to_backward_prefetch(layers[max(0, number - _BACKWARD_DEPTH) : number][::-1])
    fully_shard(model, mp_policy=policy, reshard_after_forward=False)
    return model


def log_prob_pass(model: Any, rows: torch.Tensor, *, chunk: int | None) -> None:
    """Log-probabilities of packed rows, without gradients."""
    with torch.no_grad():
        for row in rows:
            logits = _logits(model, row[None])
            _local_log_probs(logits, row[None], chunk)
            del logits


def update_pass(model: Any, optimizer: torch.optim.Optimizer, rows: torch.Tensor, lengths: list[int]) -> None:
    """One optimizer step over packed rows, a micro-batch each."""
    optimizer.zero_grad()
    for row in rows:
        torch.autograd.backward(_loss(model, row[None], lengths))
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def _logits(model: Any, row: torch.Tensor) -> torch.Tensor:
    with torch.autocast(row.device.type, dtype=torch.bfloat16):
        logits: torch.Tensor = model(input_ids=row, use_cache=False).logits
    return logits


def _loss(model: Any, row: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    logits = _logits(model, row)
    return sum(_sequence_losses(logits, row, lengths), start=torch.zeros((), device=row.device))


def _sequence_losses(logits: torch.Tensor, row: torch.Tensor, lengths: list[int]) -> Iterator[torch.Tensor]:
    start = 0
    for length in lengths:
        own = logits.narrow(1, start, length).to(torch.float32)[:, :-1]
        chosen = torch.nn.functional.log_softmax(own, dim=-1)
        next_tokens = row[:, start + 1 : start + length]
        yield -chosen.gather(-1, next_tokens.unsqueeze(-1)).squeeze(-1).mean()
        start += length


def _local_log_probs(logits: torch.Tensor, row: torch.Tensor, chunk: int | None) -> torch.Tensor:
    if chunk is None:
        log_probs = torch.nn.functional.log_softmax(logits.to(torch.float32), dim=-1)
    else:
        pieces = torch.split(logits, chunk, dim=1)
        parts = [torch.nn.functional.log_softmax(piece.to(torch.float32), dim=-1) for piece in pieces]
        log_probs = torch.cat(parts, dim=1)
        del parts
    return log_probs[:, :-1].gather(-1, row[:, 1:].unsqueeze(-1)).squeeze(-1)
