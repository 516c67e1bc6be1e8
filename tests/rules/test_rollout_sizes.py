"""Sizes of a rollout's replicas that pay: with the room that they need, and every one between."""

import pytest

from tuner.advise import Advice
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

ROLLOUT = "actor_rollout_ref.rollout"


def advised(*more: str, model: str, gpu: str = "h100-sxm") -> Advice:
    words = [
        "algorithm.adv_estimator=grpo",
        f"actor_rollout_ref.model.path={model}",
        f"{ROLLOUT}.name=trtllm",
        f"{ROLLOUT}.n=8",
        f"{ROLLOUT}.gpu_memory_utilization=0.85",
        f"{ROLLOUT}.tensor_model_parallel_size=4",
        "data.train_batch_size=512",
        "data.max_prompt_length=512",
        "data.max_response_length=2048",
        "actor_rollout_ref.actor.ppo_mini_batch_size=256",
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
        "actor_rollout_ref.actor.strategy=fsdp2",
        "trainer.n_gpus_per_node=8",
        *more,
    ]
    return consult("/dev/null", words, Premises(gpu=gpu, verl_version="0.9.1")).advice


def sizes(overrides: tuple[str, ...]) -> dict[str, str]:
    pairs = (text.lstrip("+").split("=") for text in overrides if text.startswith(ROLLOUT))
    return {key.removeprefix(f"{ROLLOUT}."): value for key, value in pairs}


def test_a_size_that_passes_the_limit_by_itself_comes_with_the_fraction_that_makes_room() -> None:
    """One GPU holds four times the weights, beside which 85 % of the rest is a little too much cache."""
    advice = advised(model="Qwen/Qwen2.5-3B-Instruct")
    (item,) = (item for item in advice.recommendations if item.finding.rule.code == "ROL008")
    proposed = sizes(item.overrides)
    assert proposed["tensor_model_parallel_size"] == "1"
    assert 0.7 < float(proposed["gpu_memory_utilization"]) < 0.85
    assert any("instead of 0.85" in note for note in item.finding.notes)
    assert item.price is not None and item.price.time_change is not None and item.price.time_change < -0.1
    together = advice.combination
    assert together is not None and sizes(together.overrides)["tensor_model_parallel_size"] == "1"
    after = advised(*together.overrides, model="Qwen/Qwen2.5-3B-Instruct")
    assert after.combination is None


def test_a_size_that_fits_as_it_is_leaves_the_fraction_alone() -> None:
    advice = advised(f"{ROLLOUT}.gpu_memory_utilization=0.7", model="Qwen/Qwen2.5-3B-Instruct")
    (item,) = (item for item in advice.recommendations if item.finding.rule.code == "ROL008")
    assert sizes(item.overrides) == {"tensor_model_parallel_size": "1"} and not item.finding.notes


def test_a_size_between_is_proposed_where_the_smallest_does_not_pay() -> None:
    """Two GPUs share 61 GiB of weights, which leave too little cache on one."""
    words = (f"{ROLLOUT}.tensor_model_parallel_size=8", f"{ROLLOUT}.gpu_memory_utilization=0.6")
    advice = advised(*words, model="Qwen/Qwen2.5-32B-Instruct", gpu="h200-sxm")
    (item,) = (item for item in advice.recommendations if item.finding.rule.code == "ROL008")
    assert sizes(item.overrides)["tensor_model_parallel_size"] == "2"
    assert advice.combination is not None
    assert sizes(advice.combination.overrides)["tensor_model_parallel_size"] == "2"


def test_graphs_whose_pool_lacks_room_come_with_the_fraction_that_makes_it() -> None:
    """SGLang's pool lies beside its fraction of the card; at 0.83 it is a little too much."""
    eager = (
        f"{ROLLOUT}.name=sglang",
        f"{ROLLOUT}.tensor_model_parallel_size=1",
        f"{ROLLOUT}.enforce_eager=True",
    )
    advice = advised(*eager, f"{ROLLOUT}.gpu_memory_utilization=0.83", model="Qwen/Qwen2.5-3B-Instruct")
    (item,) = (item for item in advice.recommendations if item.finding.rule.code == "ROL011")
    proposed = sizes(item.overrides)
    assert proposed["enforce_eager"] == "False" and 0.7 < float(proposed["gpu_memory_utilization"]) < 0.83
    assert any("instead of 0.83" in note for note in item.finding.notes)
    together = advice.combination
    assert together is not None and sizes(together.overrides)["enforce_eager"] == "False"
    roomy = advised(*eager, f"{ROLLOUT}.gpu_memory_utilization=0.7", model="Qwen/Qwen2.5-3B-Instruct")
    (item,) = (item for item in roomy.recommendations if item.finding.rule.code == "ROL011")
    assert sizes(item.overrides) == {"enforce_eager": "False"} and not item.finding.notes


def of_14b(*more: str, mean_response: float | None) -> Advice:
    """Weights of 28 GiB on each GPU beside a cache that holds a few of 256 sequences."""
    words = [
        "algorithm.adv_estimator=grpo",
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-14B-Instruct",
        f"{ROLLOUT}.name=vllm",
        f"{ROLLOUT}.n=8",
        f"{ROLLOUT}.gpu_memory_utilization=0.75",
        f"{ROLLOUT}.tensor_model_parallel_size=1",
        "data.train_batch_size=256",
        "data.max_prompt_length=1024",
        "data.max_response_length=4096",
        "actor_rollout_ref.actor.ppo_mini_batch_size=256",
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
        "actor_rollout_ref.actor.strategy=fsdp2",
        "actor_rollout_ref.actor.fsdp_config.param_offload=True",
        "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True",
        "trainer.n_gpus_per_node=8",
        *more,
    ]
    mean_prompt = None if mean_response is None else 512
    premises = Premises(
        gpu="h100-sxm", verl_version="0.9.1", mean_prompt=mean_prompt, mean_response=mean_response
    )
    return consult("/dev/null", words, premises).advice


def test_wider_replicas_are_proposed_where_the_weights_take_the_room_of_the_cache() -> None:
    advice = of_14b(mean_response=2048)
    (item,) = (item for item in advice.recommendations if item.finding.rule.code == "ROL008")
    assert sizes(item.overrides) == {"tensor_model_parallel_size": "2"}
    assert "with 2 GPUs each it holds" in item.finding.message
    together = advice.combination
    assert together is not None and sizes(together.overrides)["tensor_model_parallel_size"] == "2"
    assert together.time.seconds < 0.97 * advice.time.seconds
    assert of_14b(*together.overrides, mean_response=2048).combination is None


def test_wider_replicas_are_not_proposed_where_they_pay_at_the_assumed_lengths_alone() -> None:
    for mean_response in (None, 512.0):
        advice = of_14b(mean_response=mean_response)
        assert "ROL008" not in {item.finding.rule.code for item in advice.recommendations}


def test_graphs_that_a_smaller_fraction_has_left_no_room_for_are_asked_about_at_once() -> None:
    """A fraction that is too large is lowered first, as far as fits; the pool of the graphs needs less still.

    Smaller replicas, which go in next, would leave the graphs' gain uncertain.
    """
    megatron, optimizer = (
        "actor_rollout_ref.actor.megatron",
        "actor_rollout_ref.actor.optim.override_optimizer_config",
    )
    words = [
        *("-m", "verl.trainer.main_ppo", "--config-name=ppo_megatron_trainer"),
        "algorithm.adv_estimator=grpo",
        "actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B",
        f"{ROLLOUT}.name=vllm",
        f"{ROLLOUT}.n=8",
        f"{ROLLOUT}.gpu_memory_utilization=0.7",
        f"{ROLLOUT}.tensor_model_parallel_size=4",
        f"{ROLLOUT}.enforce_eager=True",
        f"{ROLLOUT}.max_num_batched_tokens=10240",
        "data.train_batch_size=128",
        "data.max_prompt_length=2048",
        "data.max_response_length=8192",
        "actor_rollout_ref.actor.ppo_mini_batch_size=64",
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=10240",
        f"{megatron}.expert_model_parallel_size=8",
        f"{megatron}.expert_tensor_parallel_size=1",
        f"+{megatron}.override_transformer_config.recompute_granularity=full",
        f"+{megatron}.override_transformer_config.recompute_method=uniform",
        f"+{megatron}.override_transformer_config.recompute_num_layers=1",
        f"+{optimizer}.optimizer_cpu_offload=True",
        f"+{optimizer}.optimizer_offload_fraction=1.0",
        "trainer.n_gpus_per_node=8",
    ]
    premises = Premises(gpu="b200-sxm", verl_version="0.6.1", engine_version="0.9.1")
    together = consult("python3", words, premises).advice.combination
    assert together is not None
    proposed = sizes(together.overrides)
    assert proposed["enforce_eager"] == "False" and float(proposed["gpu_memory_utilization"]) < 0.61


def test_graphs_are_found_where_the_least_cache_is_that_of_the_longest_sequence_of_the_engine() -> None:
    """It is built for the model's 32,768 positions, and the job's sequences are of 20,000 tokens at most.

    vLLM does not start with a cache for the latter alone; what makes room for the pool of the graphs does.
    """
    words = [
        "algorithm.adv_estimator=grpo",
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
        f"{ROLLOUT}.name=vllm",
        f"{ROLLOUT}.n=4",
        f"{ROLLOUT}.gpu_memory_utilization=0.83",
        f"{ROLLOUT}.tensor_model_parallel_size=1",
        f"{ROLLOUT}.enforce_eager=True",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=1",
        "data.train_batch_size=16",
        "data.max_prompt_length=15000",
        "data.max_response_length=5000",
        "actor_rollout_ref.actor.ppo_mini_batch_size=16",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
        "trainer.n_gpus_per_node=4",
    ]
    advice = consult("/dev/null", words, Premises(gpu="h100-sxm", verl_version="0.7.1")).advice
    proposed = [item.overrides for item in advice.recommendations if item.finding.rule.code == "ROL011"]
    assert [sizes(overrides)["enforce_eager"] for overrides in proposed] == ["False"]


FREED = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.model.use_remove_padding=True",
    f"{ROLLOUT}.name=vllm",
    f"{ROLLOUT}.enforce_eager=True",
    f"{ROLLOUT}.gpu_memory_utilization=0.4",
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=2",
    "data.max_prompt_length=1024",
    "data.train_batch_size=128",
    "actor_rollout_ref.actor.ppo_mini_batch_size=128",
    "actor_rollout_ref.actor.entropy_coeff=0.01",
    "trainer.n_gpus_per_node=8",
)


def of_freed(response: int, micro: int) -> Advice:
    words = [
        *FREED,
        f"data.max_response_length={response}",
        f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={micro}",
    ]
    return consult("/dev/null", words, Premises(gpu="8xh100-sxm", verl_version="0.8.0")).advice


@pytest.mark.parametrize("response", [5376, 5888])
def test_graphs_are_proposed_where_freed_blocks_alone_may_come_near_the_card(response: int) -> None:
    """The pool leaves the expected peak of the weight sync where it was, and its upper end within the card.

    No smaller cache makes room there: the engine wakes its weights before PyTorch gives back what it keeps.
    """
    combination = of_freed(response, 4).combination
    assert combination is not None
    assert combination.overrides == (f"{ROLLOUT}.enforce_eager=False",)


def test_graphs_are_told_where_the_update_is_too_large_anyway() -> None:
    advice = of_freed(16384, 8)
    assert not advice.estimate.fits()
    assert "ROL011" in {item.finding.rule.code for item in advice.recommendations}
