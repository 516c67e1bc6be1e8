"""Where several changes make a job fit, the one counts after which the finished block is fastest."""

import pytest

from tuner.advise import Advice, Verdict
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

# The freed blocks of micro-batches of eight may leave no room for the engine's weights under verl 0.8.0.
JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=4",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=128",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "data.train_batch_size=128",
    "data.max_prompt_length=1024",
    "data.max_response_length=3072",
    "trainer.n_gpus_per_node=8",
    "trainer.nnodes=1",
)


@pytest.fixture(scope="module")
def advice() -> Advice:
    return consult("/dev/null", JOB, Premises(gpu="h100-sxm", verl_version="0.8.0")).advice


def test_a_remedy_leaves_room_for_what_makes_the_step_shorter(advice: Advice) -> None:
    """Smaller micro-batches of the update leave the room that replicas of one GPU take."""
    assert advice.verdict is Verdict.MAY_NOT_FIT
    assert advice.combination is not None
    assert "actor_rollout_ref.rollout.tensor_model_parallel_size=1" in advice.combination.overrides
    assert advice.combination.estimate.fits_for_certain()


def test_no_remedy_is_tried_where_memory_is_not_short(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("tuner.advise.ways_to_fit._way_by", none)
    words = (*JOB, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1")
    assert consult("/dev/null", words, Premises(gpu="h100-sxm", verl_version="0.8.0")).advice.combination


# The engine's weights of 12 billion parameters find no room beside the blocks that the update has freed.
WHOLE_ENGINES = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=google/gemma-3-12b-pt",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384",
    "actor_rollout_ref.actor.ppo_mini_batch_size=128",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
    "actor_rollout_ref.rollout.max_model_len=8192",
    "actor_rollout_ref.rollout.n=8",
    "data.train_batch_size=128",
    "data.max_prompt_length=4096",
    "data.max_response_length=4096",
    "trainer.n_gpus_per_node=8",
    "trainer.nnodes=4",
)


def test_weights_go_to_the_host_where_freed_blocks_leave_no_room_for_the_engine() -> None:
    """To offload them gives the blocks back, which verl does without saying so."""
    advice = consult("/dev/null", WHOLE_ENGINES, Premises(gpu="h100-sxm", verl_version="0.8.0")).advice
    assert advice.verdict is Verdict.DOES_NOT_FIT
    assert advice.combination is not None and advice.combination.estimate.fits_for_certain()
    assert "actor_rollout_ref.actor.fsdp_config.param_offload=True" in advice.combination.overrides
    spoken = next(item.finding for item in advice.recommendations if item.finding.rule.code == "MEM006")
    assert "with what the update has freed" in spoken.message
