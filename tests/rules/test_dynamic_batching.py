"""Budgets beside larger fixed micro-batches, where any other cut weighs tokens otherwise."""

from tests.cli.runner import run
from tuner.advise import Advice, Recommendation
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen3-1.7B",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.actor.ppo_mini_batch_size=256",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
    "actor_rollout_ref.rollout.n=8",
    "data.train_batch_size=256",
    "data.max_prompt_length=1024",
    "data.max_response_length=4096",
    "trainer.n_gpus_per_node=8",
    "trainer.nnodes=1",
)
BY_SEQUENCES = "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean"


def advised(*words: str) -> Advice:
    return consult("/dev/null", (*JOB, *words), Premises(gpu="h100-sxm", verl_version="0.6.1")).advice


def named(advice: Advice, code: str) -> Recommendation | None:
    return next((item for item in advice.recommendations if item.finding.code == code), None)


def test_a_budget_as_large_as_the_larger_micro_batch_is_the_users_to_decide() -> None:
    advice = advised()
    fixed, budget = (named(advice, code) for code in ("BAT004", "BAT001"))
    assert fixed is not None
    assert budget is not None
    assert fixed.yours
    assert budget.yours
    assert "actor_rollout_ref.actor.use_dynamic_bsz=True" in budget.overrides
    assert fixed.workload is not None
    assert budget.workload is not None
    update = budget.workload.actor.update.batching
    assert update.token_budget == fixed.workload.actor.update.batching.micro_batch_sequences * 5_120
    assert fixed.price is not None
    assert budget.price is not None
    assert (budget.price.seconds_after or 0) < (fixed.price.seconds_after or 0)


def test_the_short_answer_tells_it_with_its_gain() -> None:
    words = ("advise", "/dev/null", "--gpu", "h100-sxm", "--verl-version", "0.6.1", *JOB)
    text = " ".join(run(*words).out.split())
    told = text.partition("BAT001")[2].partition("use_dynamic_bsz=True")[0]
    assert "shorter" in told
    assert "weights tokens differently" in told


def test_where_the_cut_decides_nothing_the_larger_micro_batch_comes_first() -> None:
    advice = advised(BY_SEQUENCES)
    assert named(advice, "BAT004") is not None
    assert named(advice, "BAT001") is None
