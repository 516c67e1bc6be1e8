"""Token budgets are proposed for the passes in which they make fewer micro-batches, and for no others."""

from tuner.advise import Advice
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

ACTOR = "actor_rollout_ref.actor"


def advised(*more: str) -> Advice:
    """A rank takes 16 sequences of a mini-batch, and 66 of a step, 16 at a time."""
    words = [
        "algorithm.adv_estimator=grpo",
        "actor_rollout_ref.model.path=Qwen/Qwen2-0.5B-Instruct",
        "actor_rollout_ref.model.use_remove_padding=True",
        "data.train_batch_size=66",
        "data.max_prompt_length=1024",
        "data.max_response_length=1024",
        f"{ACTOR}.ppo_mini_batch_size=16",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=16",
        f"{ACTOR}.use_kl_loss=True",
        f"{ACTOR}.entropy_coeff=0",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.n=6",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16",
        "trainer.n_gpus_per_node=6",
        *more,
    ]
    return consult("/dev/null", words, Premises(gpu="h100-sxm", verl_version="0.5.0")).advice


def keys(overrides: tuple[str, ...]) -> set[str]:
    return {text.split("=")[0] for text in overrides}


def test_an_update_of_one_micro_batch_is_left_alone_and_the_other_passes_get_budgets_together() -> None:
    advice = advised()
    (item,) = (item for item in advice.recommendations if item.finding.rule.code == "BAT001")
    passes = {"actor_rollout_ref.rollout.log_prob", "actor_rollout_ref.ref.log_prob"}
    assert keys(item.overrides) == {
        f"{one}_{name}" for one in passes for name in ("use_dynamic_bsz", "max_token_len_per_gpu")
    }
    assert not item.yours  # what the loss is made of stays as it is
    assert advice.combination is not None and keys(item.overrides) <= keys(advice.combination.overrides)


def test_an_update_of_several_micro_batches_gets_one() -> None:
    """No more than 22 of its 66 sequences fit at a time."""
    advice = advised(f"{ACTOR}.ppo_mini_batch_size=66", f"{ACTOR}.ppo_micro_batch_size_per_gpu=22")
    proposed = [keys(item.overrides) for item in advice.recommendations if item.finding.rule.code == "BAT001"]
    assert proposed and f"{ACTOR}.use_dynamic_bsz" in proposed[0]


def test_a_pass_that_follows_a_budget_too_large_for_both_is_not_held_to_it() -> None:
    """verl 0.4.1 ``ppo_trainer.yaml``: ``${actor_rollout_ref.actor.ppo_max_token_len_per_gpu}``."""
    model, log_prob = "actor_rollout_ref.model", "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu"
    unpacked = (f"{model}.path=google/gemma-2-2b-it", f"{model}.use_remove_padding=False")
    budget = (f"{ACTOR}.use_dynamic_bsz=True", f"{ACTOR}.ppo_max_token_len_per_gpu=65536")
    sizes = (f"{ACTOR}.ppo_mini_batch_size=66", f"{ACTOR}.use_kl_loss=False")

    def lowered(*more: str) -> tuple[str, ...]:
        advice = advised(*unpacked, *budget, *sizes, *more)
        (item,) = (it for it in advice.recommendations if it.finding.rule.code == "BAT003")
        return item.overrides

    assert keys(lowered()) == {f"{ACTOR}.ppo_max_token_len_per_gpu"}
    assert keys(lowered(f"{log_prob}=4096")) == {f"{ACTOR}.ppo_max_token_len_per_gpu"}
