"""A model that Megatron cuts into more parts than it needs is cut into fewer, in every role and key alike."""

import pytest

from tuner.advise import Advice
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

ROLES = ("actor_rollout_ref.actor", "actor_rollout_ref.ref")


def advised(*more: str, release: str, tensor: int = 2, pipeline: int = 2) -> Advice:
    """Half a billion parameters on eight GPUs."""
    words = [
        *("-m", "verl.trainer.main_ppo", "--config-name=ppo_megatron_trainer"),
        "algorithm.adv_estimator=grpo",
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct",
        "data.train_batch_size=128",
        "data.max_prompt_length=512",
        "data.max_response_length=128",
        "actor_rollout_ref.actor.ppo_mini_batch_size=64",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=20",
        "actor_rollout_ref.actor.use_kl_loss=True",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=40",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=40",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.n=5",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
        "trainer.n_gpus_per_node=8",
        *(f"{role}.megatron.tensor_model_parallel_size={tensor}" for role in ROLES),
        *(f"{role}.megatron.pipeline_model_parallel_size={pipeline}" for role in ROLES),
        *more,
    ]
    return consult("python3", words, Premises(gpu="h100-sxm", verl_version=release)).advice


def said(advice: Advice) -> set[str]:
    return {item.finding.rule.code for item in advice.recommendations}


@pytest.mark.parametrize("release", ["0.6.1", "0.9.1"])
def test_a_small_model_is_laid_whole_on_each_gpu_in_all_roles(release: str) -> None:
    advice = advised(release=release)
    (item,) = (item for item in advice.recommendations if item.finding.rule.code == "MEM017")
    assert set(item.overrides) == {
        f"{role}.megatron.{kind}_model_parallel_size=1" for role in ROLES for kind in ("tensor", "pipeline")
    }
    assert "4 GPUs hold the actor once, where 1 would do; 8 ranks" in item.finding.message
    assert item.price is not None and item.price.time_change is not None and item.price.time_change < -0.2
    assert item.yours == (release == "0.6.1")  # whose loss weighs tokens by how sequences are cut
    assert "MEM017" not in said(advised(*item.overrides, release=release))


def test_the_block_has_it_and_offers_nothing_further() -> None:
    together = advised(release="0.9.1").combination
    assert together is not None
    assert "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=1" in together.overrides
    assert advised(*together.overrides, release="0.9.1").combination is None


def test_a_size_that_is_one_already_gets_no_line() -> None:
    advice = advised(release="0.9.1", pipeline=1)
    (item,) = (item for item in advice.recommendations if item.finding.rule.code == "MEM017")
    assert not any("pipeline" in text for text in item.overrides)


def test_stages_of_several_pieces_are_left_alone() -> None:
    pieces = (f"{role}.megatron.virtual_pipeline_model_parallel_size=2" for role in ROLES)
    assert "MEM017" not in said(advised(*pieces, release="0.9.1"))
