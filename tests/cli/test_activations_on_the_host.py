"""Recomputation stays where the activations that it spares would fill the host, which nobody counts."""

import json

import pytest

from tests.cli.runner import run

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.model.enable_activation_offload=True",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "trainer.n_gpus_per_node=8",
)
LONG = (
    "data.max_prompt_length=28672",
    "data.max_response_length=12288",
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size=4",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=10240",
    "actor_rollout_ref.actor.fsdp_config.param_offload=True",
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True",
)


@pytest.mark.parametrize(
    ("model", "more", "kept"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu=2048",), True),
        ("Qwen/Qwen3-14B", LONG, False),
    ],
)
def test_they_are_kept_where_the_card_could_hold_them(model: str, more: tuple[str, ...], kept: bool) -> None:
    words = (*JOB, f"actor_rollout_ref.model.path={model}", *more)
    options = ("--gpu", "h100-sxm", "--verl-version", "0.6.1", "-f", "json")
    report = json.loads(run("advise", "/dev/null", *words, *options).out)
    assert any(one["code"] == "MEM003" for one in report["findings"]) is kept
