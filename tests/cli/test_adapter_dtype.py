"""What a base in bfloat16 does to the training depends on whether the release casts adapters with it."""

import json
from typing import Any

import pytest

from tests.cli.runner import run

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.model.lora_rank=32",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.load_format=safetensors",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
    "trainer.n_gpus_per_node=2",
    "trainer.nnodes=1",
)


def advised(release: str) -> dict[str, Any]:
    result = run("advise", "/dev/null", *JOB, "--gpu", "h100-sxm", "--verl-version", release, "-f", "json")
    assert result.code == 0, result.err
    (finding,) = [item for item in json.loads(result.out)["findings"] if item["code"] == "MEM012"]
    return dict(finding)


@pytest.mark.parametrize("release", ["0.4.1", "0.6.1", "0.8.0"])
def test_adapters_that_stay_in_float32_learn_as_before(release: str) -> None:
    """verl 0.4.1 workers/fsdp_workers.py, 0.8.0 workers/engine/fsdp/transformer_impl.py:336: peft alone."""
    finding = advised(release)
    assert finding["numerics"] == "exact"
    assert not finding["yours"]
    assert finding["notes"] == ["The adapters stay in float32."]


def test_adapters_that_are_cast_learn_otherwise() -> None:
    """verl 0.9.0 workers/engine/fsdp/transformer_impl.py:351-362."""
    finding = advised("0.9.1")
    assert finding["numerics"] == "changed"
    assert finding["notes"] == ["The adapters are stored in the same dtype."]
