"""Megatron's fused head beside layers that Megatron fuses: offered by the releases that have it."""

import pytest

from tests.rules.test_rotary_fusion import job
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

FUSED = "actor_rollout_ref.model.use_fused_kernels=True"
LONG = (
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=1",
    "actor_rollout_ref.actor.megatron.use_mbridge=True",
    "algorithm.adv_estimator=grpo",
    "data.max_response_length=31000",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=65536",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=65536",
)
FUSES = "+actor_rollout_ref.actor.megatron.override_transformer_config.bias_activation_fusion=True"


@pytest.mark.parametrize(("release", "offered"), [("0.7.0", False), ("0.7.1", True), ("0.8.0", True)])
def test_layers_that_megatron_fuses_are_not_in_its_way(release: str, offered: bool) -> None:
    """Before 0.7.1 the kernel counts columns beyond this vocabulary."""
    advice = consult("/dev/null", job(*LONG, FUSES), Premises(gpu="h200-sxm", verl_version=release)).advice
    said = {text for item in advice.recommendations for text in item.overrides}
    assert (FUSED in said) is offered
