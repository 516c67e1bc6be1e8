"""The critic's forward pass gets micro-batches of its own where another size of its update weighs tokens."""

from tuner.advise import Advice
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.findings import Numerics

CRITIC = "critic"
KEY = f"{CRITIC}.forward_micro_batch_size_per_gpu"


def advised(*more: str, release: str = "0.4.1") -> Advice:
    """A rank has 32 sequences, of which both passes of the critic take 2 at a time."""
    words = [
        "algorithm.adv_estimator=gae",
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct",
        f"{CRITIC}.model.path=Qwen/Qwen2.5-0.5B-Instruct",
        "data.train_batch_size=256",
        "data.max_prompt_length=512",
        "data.max_response_length=512",
        "actor_rollout_ref.actor.ppo_mini_batch_size=256",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
        f"{CRITIC}.ppo_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
        "trainer.n_gpus_per_node=8",
        *more,
    ]
    return consult("/dev/null", words, Premises(gpu="h100-sxm", verl_version=release)).advice


def said(advice: Advice) -> set[str]:
    return {item.finding.rule.code for item in advice.recommendations}


def test_the_forward_pass_gets_more_in_the_block_while_the_update_is_left_to_decide() -> None:
    advice = advised()
    (item,) = (item for item in advice.recommendations if item.finding.rule.code == "BAT015")
    assert item.overrides == (f"{KEY}=8",)
    assert item.numerics is Numerics.REORDERED and not item.yours
    assert item.price is not None and item.price.time_change is not None and item.price.time_change < -0.03
    (update,) = (item for item in advice.recommendations if item.finding.rule.code == "BAT008")
    assert update.yours
    together = advice.combination
    assert together is not None and f"{KEY}=16" in together.overrides  # worth more of a shorter step
    assert advised(*together.overrides).combination is None


def test_it_is_not_said_where_the_pass_takes_as_much_already() -> None:
    assert "BAT015" not in said(advised(f"{KEY}=16"))


def test_it_is_not_said_where_both_passes_may_be_sized_together() -> None:
    assert "BAT015" not in said(advised(release="0.9.1"))
