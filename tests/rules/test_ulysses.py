"""A sequence is shared between GPUs where only a head that trains otherwise would make room for it."""

import pytest

from tuner.advise import Advice, Verdict
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

# Two sequences of nearly the whole budget share a micro-batch, whose logits alone take 75 GiB.
JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.rollout.name=sglang",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.n=16",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=33792",
    "actor_rollout_ref.actor.ppo_mini_batch_size=128",
    "data.train_batch_size=512",
    "data.max_prompt_length=1024",
    "data.max_response_length=32768",
    "trainer.n_gpus_per_node=8",
    "trainer.nnodes=4",
)


def advised(release: str) -> Advice:
    return consult("/dev/null", JOB, Premises(gpu="h100-sxm", verl_version=release)).advice


@pytest.mark.parametrize("release", ["0.4.0", "0.6.1"])
def test_a_head_that_rounds_is_no_cheaper_way_than_sharing(release: str) -> None:
    advice = advised(release)
    assert advice.verdict is not Verdict.FITS
    shared = [item for item in advice.recommendations if item.finding.rule.code == "SEQ002"]
    assert shared
    assert "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2" in shared[0].overrides
    assert "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16896" in shared[0].overrides


def test_a_head_that_rounds_nothing_is_the_cheaper_way() -> None:
    advice = advised("0.8.0")
    codes = {item.finding.rule.code for item in advice.recommendations}
    assert "KRN001" in codes
    assert "SEQ002" not in codes
