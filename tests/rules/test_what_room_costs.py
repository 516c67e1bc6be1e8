"""Room for the rollout engine: by what costs the step least, with its price, not on an assumption alone."""

import json
from functools import cache
from typing import Any

from tests.cli.runner import Result, run

ROLE = "actor_rollout_ref"
#: The KV cache holds a tenth of the sequences of a replica, so the rollout waits for it.
WAITING = (
    *("algorithm.adv_estimator=grpo", f"{ROLE}.model.path=Qwen/Qwen2.5-7B-Instruct"),
    *("trainer.n_gpus_per_node=4", "trainer.nnodes=1", "data.train_batch_size=512"),
    *("data.max_prompt_length=1024", "data.max_response_length=8192", f"{ROLE}.rollout.n=8"),
    *(f"{ROLE}.rollout.name=vllm", f"{ROLE}.rollout.tensor_model_parallel_size=1"),
    *(f"{ROLE}.actor.ppo_mini_batch_size=64", f"{ROLE}.actor.use_kl_loss=False"),
    *(f"{ROLE}.actor.use_dynamic_bsz=True", f"{ROLE}.actor.ppo_max_token_len_per_gpu=9216"),
    *(f"{ROLE}.model.use_remove_padding=True",),
    f"{ROLE}.rollout.checkpoint_engine.update_weights_bucket_megabytes=4096",
)
OFFLOADED = tuple(f"{ROLE}.actor.fsdp_config.{what}_offload=True" for what in ("param", "optimizer"))
FEW = ("data.train_batch_size=64",)


@cache
def advised(*arguments: str) -> Result:
    return run("advise", "/dev/null", "--gpu", "h100-sxm", "--verl-version", "0.7.1", *arguments)


def answer(*overrides: str, options: tuple[str, ...] = ()) -> Any:
    return json.loads(advised("-f", "json", *options, "--", *WAITING, *overrides).out)


def codes(report: Any) -> set[str]:
    return {item["code"] for item in report["findings"]}


def fraction(value: float) -> str:
    return f"{ROLE}.rollout.gpu_memory_utilization={value}"


def test_a_cache_that_is_waited_for_is_not_made_smaller_where_states_can_leave() -> None:
    report = answer(fraction(0.7))
    assert "ROL002" not in codes(report)
    assert report["combination"]["overrides"] == [f"{ROLE}.actor.fsdp_config.optimizer_offload=True"]
    smaller = answer(fraction(0.59))
    assert report["combination"]["seconds"] < smaller["step_time"]["seconds"]


def test_a_cache_that_holds_what_runs_is_made_smaller() -> None:
    report = answer(fraction(0.7), *FEW, "data.max_response_length=512", f"{ROLE}.rollout.n=2")
    assert "ROL002" in codes(report)
    assert "MEM008" not in codes(report)


def test_a_line_that_costs_time_says_so() -> None:
    overrides = (*WAITING, *OFFLOADED, fraction(0.95))
    text = " ".join(advised("--", *overrides).out.split())
    assert "makes it fit ROL002 gpu_memory_utilization (same numerics; step 2% longer)" in text


def test_more_cache_does_not_rest_on_an_assumed_length() -> None:
    """Of sequences half as long the cache holds enough: more of it pays where their lengths are known."""
    short = ("data.max_response_length=1024", f"{ROLE}.model.path=Qwen/Qwen3-4B", fraction(0.4))
    assumed = answer(*short)
    said = answer(*short, options=("--mean-response-length", "512", "--mean-prompt-length", "512"))
    assert assumed["step_time"]["seconds"] == said["step_time"]["seconds"]
    assert "ROL001" not in codes(assumed)
    assert "ROL001" in codes(said)
