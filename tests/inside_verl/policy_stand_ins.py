"""A verl of a hundred lines for the policy loss: its engine's step, its legacy actor, its loss.

They call one another as verl's do; ``test_policy_updates.py`` has the real ones.
"""

from tests.inside_verl.stand_in import SOURCES as OF_THE_HEAD

CORE_ALGOS = """
import torch


def agg_loss(loss_mat, loss_mask, loss_agg_mode, dp_size=1, batch_num_tokens=None, **_):
    assert loss_agg_mode == "token-mean"
    tokens = loss_mask.sum() if batch_num_tokens is None else batch_num_tokens
    return torch.where(loss_mask.bool(), loss_mat, 0.0).sum() / tokens * dp_size


def vanilla(old_log_prob, log_prob, advantages, response_mask, config, **normalisation):
    ratio = (log_prob - old_log_prob).clamp(-20, 20).exp()
    clipped = ratio.clamp(1 - config.clip_ratio, 1 + config.clip_ratio)
    losses = torch.maximum(-advantages * ratio, -advantages * clipped)
    bounded = torch.where(advantages < 0, torch.min(-advantages * config.clip_ratio_c, losses), losses)
    return agg_loss(bounded, response_mask, config.loss_agg_mode, **normalisation)
"""

TENSORDICT_UTILS = """
def get_non_tensor_data(data, key, default):
    return data.get(key, default)


def assign_non_tensor(data, **values):
    data.update(values)
"""

LOSSES = """
from verl.trainer.ppo.core_algos import agg_loss, vanilla


def no_padding_2_padding(values, data):
    return values[:, data["prompt"] - 1 : -1]


def ppo_loss(config, model_output, data, dp_group=None):
    whole = {key: data[key] for key in ("dp_size", "batch_num_tokens", "global_batch_size")}
    whole["loss_scale_factor"] = config.loss_scale_factor
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    mask = data["response_mask"].bool()
    loss = vanilla(data["old_log_probs"], log_prob, data["advantages"], mask, config, **whole)
    if model_output.get("entropy") is not None:
        entropy = no_padding_2_padding(model_output["entropy"], data)
        loss = loss - config.entropy_coeff * agg_loss(entropy, mask, config.loss_agg_mode, **whole)
    return loss, {"kept": log_prob.detach()}


def sft_loss(config, model_output, data, dp_group=None):
    return -(model_output["log_probs"][:, :-1]).mean(), {}


def distillation_ppo_loss(config, distillation_config, model_output, data, dp_group=None):
    return ppo_loss(config, model_output, data, dp_group)
"""

TRANSFORMER_IMPL = """
class FSDPEngineWithLMHead:
    ulysses_sequence_parallel_size = 1

    def __init__(self, module):
        self.module = module

    def prepare_model_inputs(self, micro_batch):
        ids = micro_batch["input_ids"].view(1, -1)
        return {"input_ids": ids, "shift_labels": ids.roll(-1, dims=-1)}

    def forward_step(self, micro_batch, loss_function, forward_only):
        ids = micro_batch["input_ids"]
        packed = self.prepare_model_inputs(micro_batch)
        output = self.module(**packed, temperature=0.7, return_dict=True, use_cache=False)
        model_output = {"log_probs": output.log_probs.view_as(ids)}
        if micro_batch.get("calculate_entropy"):
            model_output["entropy"] = output.entropy.view_as(ids)
        loss, metrics = loss_function(model_output=model_output, data=micro_batch, dp_group=None)
        return loss, metrics
"""

DP_ACTOR = """
from verl.trainer.ppo.core_algos import vanilla


class DataParallelPPOActor:
    ulysses_sequence_parallel_size = 1
    use_fused_kernels = True

    def __init__(self, module, config):
        self.actor_module = module
        self.config = config

    def _forward_micro_batch(self, micro_batch, temperature, calculate_entropy=False):
        output = self.actor_module(
            input_ids=micro_batch["input_ids"], temperature=temperature, return_dict=True, use_cache=False
        )
        width = micro_batch["response_mask"].shape[1]
        return None, output.log_probs[:, -width - 1 : -1]

    def update_policy(self, data):
        mini_batches = data.split(self.config.ppo_mini_batch_size)
        on_policy = len(mini_batches) == 1 and self.config.ppo_epochs == 1
        for mini_batch in mini_batches:
            _, log_prob = self._forward_micro_batch(mini_batch, temperature=0.7)
            old = log_prob.detach() if on_policy else mini_batch["old_log_probs"]
            loss = vanilla(old, log_prob, mini_batch["advantages"], mini_batch["response_mask"], self.config)
            (loss / len(mini_batches)).backward()
"""

SOURCES = {
    **OF_THE_HEAD,
    "verl.trainer.ppo.core_algos": CORE_ALGOS,
    "verl.utils.tensordict_utils": TENSORDICT_UTILS,
    "verl.workers.utils.losses": LOSSES,
    "verl.workers.engine.fsdp.transformer_impl": TRANSFORMER_IMPL,
    "verl.workers.actor.dp_actor": DP_ACTOR,
}
