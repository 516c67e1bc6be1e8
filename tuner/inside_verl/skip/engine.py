"""The skip in the workers of verl's model engine: 0.7.0 and later.

verl hands each mini-batch to ``TrainingWorker.train_batch``, whatever drew it: epochs and shuffling stay
verl's. Its loss divides by ``global_batch_size``, which is the whole mini-batch's, or by
``batch_num_tokens``, which the engine counts in what it is given.
"""

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from tuner.inside_verl.losses import WholeBatchLoss, innermost, loss_name
from tuner.inside_verl.settings import SKIP_ZERO_ADVANTAGE
from tuner.inside_verl.skip.exact import check_batch, check_loss, refuse_distillation
from tuner.inside_verl.skip.exchange import Ranks, RankSequences, agree, handed_over, has_advantage, measures
from tuner.zero_advantage import KEEP_STEPS, ONE_STEP

_COUNTS = "actor/skip/steps_without_gradient"


def _tensordict_utils() -> Any:
    """The functions of verl that read and write its batches."""
    return import_module("verl.utils.tensordict_utils")


def _actor(loss_function: Any) -> Any | None:
    """The configuration of the actor whose loss this is; None for a critic's, a reward model's or another."""
    name = loss_name(loss_function)
    if name == "distillation_ppo_loss":
        refuse_distillation()
    return innermost(loss_function).keywords["config"] if name == "ppo_loss" else None


def set_loss_fn(original: Callable[..., Any]) -> Callable[..., Any]:
    """``TrainingWorker.set_loss_fn``, which refuses what the skip would change: before the first rollout."""

    @functools.wraps(original)
    def with_check(self: Any, loss_fn: Any) -> Any:
        actor = _actor(loss_fn)
        if actor is not None:
            check_loss(actor)
        return original(self, loss_fn)

    return with_check


def train_mini_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    """``TrainingWorker.train_mini_batch``, whose mini-batches are one where one step is asked for."""

    @functools.wraps(original)
    def folded(self: Any, data: Any) -> Any:
        if _actor(self.loss_fn) is None:
            return original(self, data)
        tu = _tensordict_utils()
        if SKIP_ZERO_ADVANTAGE.read() == ONE_STEP:
            whole = data.shape[0] * self.engine.get_data_parallel_size()
            tu.pop(data, key="num_mini_batch", default=None)
            tu.assign_non_tensor(data, mini_batch_size=whole, global_batch_size=whole)
        output = original(self, data)
        if output is not None:
            metrics = tu.get(output, "metrics")
            metrics[_COUNTS] = [sum(metrics[_COUNTS])]  # a count of the update, not a mean of its steps
            tu.assign_non_tensor(output, metrics=metrics)
        return output

    return folded


def train_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    """``TrainingWorker.train_batch`` on the sequences of a mini-batch that have an advantage."""

    @functools.wraps(original)
    def skipping(self: Any, data: Any) -> Any:
        actor = _actor(self.loss_fn)
        if actor is None:
            return original(self, data)
        tu = _tensordict_utils()
        check_loss(actor)
        check_batch(actor, data.keys(), padded=not data["response_mask"].is_nested)
        left, agreed = _remaining_batch(self, data, actor)
        loss = self.loss_fn
        self.loss_fn = WholeBatchLoss(loss, agreed.tokens)
        try:
            output = original(self, left)
        finally:
            self.loss_fn = loss
        if output is not None:
            metrics = tu.get(output, "metrics")
            metrics.update(measures(agreed))
            tu.assign_non_tensor(output, metrics=metrics)
        return output

    return skipping


def _row_multiple(worker: Any, data: Any) -> int:
    """What a rank's sequences must be a multiple of, so that verl can split them into micro-batches."""
    tu = _tensordict_utils()
    settings = worker.engine_config
    multiple = 1
    if not tu.get(data, "use_dynamic_bsz", settings.use_dynamic_bsz):
        multiple = tu.get(data, "micro_batch_size_per_gpu", settings.micro_batch_size_per_gpu)
    if (getattr(settings, "virtual_pipeline_model_parallel_size", None) or 1) > 1:
        multiple *= worker.engine.tf_config.microbatch_group_size_per_vp_stage
    return int(multiple)


def _remaining_batch(worker: Any, data: Any, actor: Any) -> tuple[Any, Any]:
    """What this rank runs of a mini-batch, as verl's batch, and what all ranks agreed on."""
    tu = _tensordict_utils()
    counted = data["loss_mask"].unbind()
    held = RankSequences(
        has_advantage=has_advantage(data["advantages"].unbind(), data["response_mask"].unbind()),
        tokens=[int(mask.sum()) for mask in counted],
        lengths=data["input_ids"].offsets().diff().tolist(),
        mini_batch=[0] * len(counted),
    )
    ranks = Ranks(worker.engine.get_data_parallel_group())
    agreed = agree(
        held,
        ranks,
        mode=KEEP_STEPS,  # one step is one mini-batch, folded before
        loss_agg_mode=actor.loss_agg_mode,
        row_multiple=_row_multiple(worker, data),
    )
    rows, common = _parts(data)
    joined, places = handed_over(
        agreed,
        ranks,
        functools.partial(_selected_rows, rows),
        lambda parts: tu.concat_tensordict(parts) if len(parts) > 1 else parts[0],
    )
    left = _selected_rows(joined, places[0]).copy()  # what it gets beside the rows is not the mini-batch's
    for key, value in common.items():
        left[key] = value
    if tu.get(data, "global_token_num") is not None:
        left["global_token_num"] = import_module("tensordict").NonTensorData(
            agreed.run_lengths
        )  # for the MFU: what ran
    return left, agreed


def _selected_rows(rows: Any, indices: list[int]) -> Any:
    """Some sequences of a batch; the batch itself where they are all, in their order.

    Verl's function indexes every tensor with brackets, for which torch wakes all its threads: tens of
    milliseconds each where other processes keep their cores busy. Tensors with a row for each sequence are
    therefore selected here, and only what else there is by that function.
    """
    if indices == list(range(len(rows))):
        return rows
    chosen = torch.tensor(indices, dtype=torch.int64)
    whole = {
        key: value.index_select(0, chosen.to(value.device))
        for key, value in rows.items()
        if isinstance(value, torch.Tensor) and not value.is_nested
    }
    kind = import_module("tensordict").TensorDict
    others = kind({key: value for key, value in rows.items() if key not in whole}, batch_size=[len(rows)])
    selected = dict(_tensordict_utils().index_select_tensor_dict(others, chosen).items())
    return kind({**whole, **selected}, batch_size=[len(indices)])


def _parts(data: Any) -> tuple[Any, dict[str, Any]]:
    """The batch's fields with a row for each sequence, and those that are one value for all."""
    tensordict = import_module("tensordict")
    common = {key: value for key, value in data.items() if isinstance(value, tensordict.NonTensorData)}
    rows = {key: value for key, value in data.items() if key not in common}
    return tensordict.TensorDict(rows, batch_size=data.batch_size), common
