"""The policy loss in verl's legacy FSDP actor, up to 0.7.1.

``update_policy`` hands ``_forward_micro_batch`` the whole micro-batch and makes the loss of what comes back.
What it multiplies the loss by at the end is found where the gradient arrives.

Source: verl 0.5.0 to 0.7.1, ``workers/actor/dp_actor.py``.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tuner.inside_verl.head.policy.coverage import objective_of
from tuner.inside_verl.head.policy.loss_handoff import WAY
from tuner.inside_verl.head.policy.plan import HeadRows, PlannedLoss, planned, standing_in
from tuner.inside_verl.losses import token_weights
from tuner.inside_verl.verl_process import configured

_ON_POLICY = "_tuner_on_policy"  # on an actor: its update is one step on all of the batch


def update_policy(original: Callable[..., Any]) -> Callable[..., Any]:
    """``DataParallelPPOActor.update_policy``, which notes whether it takes the ratio to its own pass.

    verl does so from 0.6.0 on where the batch is one mini-batch and there is one epoch.
    """

    @functools.wraps(original)
    def noting(self: Any, data: Any) -> Any:
        mini_batches = data.split(self.config.ppo_mini_batch_size)
        one_step = len(mini_batches) == 1 and self.config.ppo_epochs == 1
        setattr(self, _ON_POLICY, one_step and not configured(self.config, "use_rollout_log_probs"))
        return original(self, data)

    return noting


def forward_micro_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    """``DataParallelPPOActor._forward_micro_batch``, whose loss the head knows of in an update."""

    @functools.wraps(original)
    def informed(
        self: Any, micro_batch: Any, temperature: float, calculate_entropy: bool = False, **named: Any
    ) -> Any:
        plan = None
        run = functools.partial(
            original, self, micro_batch, temperature=temperature, calculate_entropy=calculate_entropy, **named
        )
        if torch.is_grad_enabled() and self.use_fused_kernels and "advantages" in micro_batch:
            plan = WAY.planned(lambda: _plan(self, micro_batch, run, entropy=calculate_entropy))
        with WAY.bring(plan):
            return run()

    return informed


def _plan(actor: Any, micro_batch: Any, run: Callable[[], Any], *, entropy: bool) -> PlannedLoss:
    config = actor.config
    objective = objective_of(config, entropy=entropy, on_policy=getattr(actor, _ON_POLICY, False))
    with standing_in(actor, "actor_module", actor.ulysses_sequence_parallel_size) as model:
        output = run()
    numbers: Tensor = output["log_probs"] if isinstance(output, dict) else output[1]  # from 0.7.1 on a dict
    mask = micro_batch["response_mask"]
    advantages = micro_batch["advantages"]
    if micro_batch.get("rollout_is_weights") is not None:
        advantages = advantages * micro_batch["rollout_is_weights"]
    return planned(
        objective,
        HeadRows(numbers=numbers, first=model.first, count=model.count),
        mask,
        token_weights(mask, config.loss_agg_mode, torch.float32),
        {
            "old": micro_batch["old_log_probs"],
            "advantages": advantages,
            "reference": micro_batch["ref_log_prob"] if objective.kl_loss_coef else None,
        },
    )
