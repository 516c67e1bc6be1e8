"""The output head of a causal language model of transformers, without its logits."""

import torch
from torch import Tensor, nn

from tuner.kernels import linear_cross_entropy, linear_policy_loss


def log_probs_and_entropy(model: nn.Module, input_ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Of every token but the first, given those before it."""
    hidden = model.model(input_ids).last_hidden_state[:, :-1]
    return linear_cross_entropy(hidden, model.lm_head.weight, input_ids[:, 1:], temperature)


def policy_loss(model: nn.Module, batch: dict[str, Tensor], temperature: float) -> Tensor:
    """PPO's clipped loss, as a mean over the tokens of the responses."""
    hidden = model.model(batch["input_ids"]).last_hidden_state[:, :-1]
    mask = batch["response_mask"][:, 1:]
    found = linear_policy_loss(
        hidden,
        model.lm_head.weight,
        # Tokens outside the response cost nothing.
        torch.where(mask > 0, batch["input_ids"][:, 1:], -100),
        batch["old_log_probs"],
        batch["advantages"],
        mask / mask.sum(),
        temperature,
        entropy_coeff=0.001,
    )
    return found.loss
