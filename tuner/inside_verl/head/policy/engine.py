"""The policy loss in the workers of verl's model engine: 0.7.0 and later.

``FSDPEngineWithLMHead.forward_step`` runs the model on a micro-batch and calls the loss function with what
came out. What the loss reads beside it is in the same micro-batch, so the step is run twice: first with row
numbers in place of the model, to see what the loss would get, then as it is.

Sources: verl 0.7.0 to 0.9.1, ``workers/engine/fsdp/transformer_impl.py`` and ``ppo_loss`` of
``workers/utils/losses.py``.
"""

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from tuner.inside_verl.head.policy.coverage import ACTOR, NotCoveredError, actor_of, objective_of
from tuner.inside_verl.head.policy.loss_handoff import WAY
from tuner.inside_verl.head.policy.plan import HeadRows, PlannedLoss, planned, standing_in
from tuner.inside_verl.losses import token_weights, with_innermost


def forward_step(original: Callable[..., Any]) -> Callable[..., Any]:
    """``FSDPEngineWithLMHead.forward_step``, whose loss the head knows of in an update of the actor."""

    @functools.wraps(original)
    def informed(self: Any, micro_batch: Any, loss_function: Any, forward_only: bool) -> Any:
        plan = None
        if not forward_only and _with_head(micro_batch):
            plan = WAY.planned(functools.partial(_plan, original, self, micro_batch, loss_function))
        with WAY.bring(plan):
            return original(self, micro_batch, loss_function=loss_function, forward_only=forward_only)

    return informed


def _with_head(micro_batch: Any) -> bool:
    utils = import_module("verl.utils.tensordict_utils")
    return bool(utils.get_non_tensor_data(data=micro_batch, key="use_fused_kernels", default=False))


class _Arguments:
    """A loss function that keeps what it is called with."""

    model_output: Any
    data: Any

    def __call__(
        self, *, model_output: Any, data: Any, dp_group: Any = None
    ) -> tuple[Tensor, dict[str, Any]]:
        self.model_output, self.data = model_output, data
        return torch.zeros(()), {}


def _check_inputs_are_verls(engine: Any, step: Callable[..., Any]) -> None:
    """Refuses engines that prepare inputs in their own way, such as VeOmni's: doing so twice may show."""
    owner = next(kind for kind in type(engine).__mro__ if "prepare_model_inputs" in vars(kind))
    if owner.__module__ != step.__module__:
        raise NotCoveredError(ACTOR + "strategy", owner.__module__.split(".")[-2])


def _plan(step: Callable[..., Any], engine: Any, micro_batch: Any, loss_function: Any) -> PlannedLoss:
    _check_inputs_are_verls(engine, step)
    actor = actor_of(loss_function)
    objective_of(actor, entropy=True)  # before anything is run for it
    arguments = _Arguments()
    with standing_in(engine, "module", engine.ulysses_sequence_parallel_size) as model:
        step(engine, micro_batch, loss_function=with_innermost(loss_function, arguments), forward_only=False)
    output, data = arguments.model_output, arguments.data
    objective = objective_of(actor, entropy=output.get("entropy") is not None)
    mask = _padded(data["response_mask"]).bool()
    weights = token_weights(
        mask,
        actor.loss_agg_mode,
        torch.float32,
        dp_size=data["dp_size"],
        batch_num_tokens=data["batch_num_tokens"],
        global_batch_size=data["global_batch_size"],
        loss_scale_factor=actor.loss_scale_factor,
    )
    advantages = _padded(data["advantages"])
    if "rollout_is_weights" in data:
        advantages = advantages * _padded(data["rollout_is_weights"])
    reference = _padded(data["ref_log_prob"]) if objective.kl_loss_coef else None
    return planned(
        objective,
        HeadRows(numbers=_responses(output["log_probs"], data), first=model.first, count=model.count),
        mask,
        weights,
        {"old": _padded(data["old_log_probs"]), "advantages": advantages, "reference": reference},
    )


def _padded(values: Tensor) -> Tensor:
    return values.to_padded_tensor(0) if values.is_nested else values


def _responses(values: Tensor, data: Any) -> Tensor:
    """The rows of the responses, ``[sequences, tokens]``, as the loss of this release takes them."""
    losses = import_module("verl.workers.utils.losses")
    name = "_slice_response_from_unpad_output"  # 0.7.0
    take = getattr(losses, name if hasattr(losses, name) else "no_padding_2_padding")
    responses: Tensor = take(values, data)
    return responses
