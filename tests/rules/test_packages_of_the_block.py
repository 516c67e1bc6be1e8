"""What the answer says of a package that is part of the block: that nothing fits without it only where so."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

ROLE = "actor_rollout_ref"
LIGER = f"{ROLE}.model.use_liger=True"
GIVEN = ("--gpu", "h100-sxm", "--verl-version", "0.6.1", "--model", "Qwen3-14B")
JOB = (
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=128",
    "data.max_prompt_length=1024",
    "data.max_response_length=16384",
    f"{ROLE}.model.use_remove_padding=True",
    f"{ROLE}.actor.ppo_mini_batch_size=128",
    f"{ROLE}.actor.use_dynamic_bsz=True",
    f"{ROLE}.actor.ppo_max_token_len_per_gpu=24576",
    f"{ROLE}.actor.use_kl_loss=True",
    f"{ROLE}.rollout.tensor_model_parallel_size=1",
    f"{ROLE}.rollout.name=sglang",
    f"{ROLE}.rollout.gpu_memory_utilization=0.8",
    f"{ROLE}.rollout.n=16",
    f"{ROLE}.ref.fsdp_config.param_offload=True",
    "trainer.n_gpus_per_node=8",
    "trainer.nnodes=1",
)


def test_a_block_that_fits_without_its_package_does_not_claim_to_need_it() -> None:
    report = json.loads(run("advise", "/dev/null", *GIVEN, "-f", "json", "--", *JOB).out)
    block = report["combination"]
    assert LIGER in block["overrides"]
    assert "liger-kernel" in block["packages"]
    rest = [text for text in block["overrides"] if text != LIGER]
    followed = json.loads(run("advise", "/dev/null", *GIVEN, "-f", "json", "--", *JOB, *rest).out)
    assert followed["verdict"] == "fits"

    text = " ".join(run("advise", "/dev/null", *GIVEN, "--", *JOB).out.split())
    assert "It needs liger-kernel where the job runs; without that line the block fits as well." in text
    assert "nothing fits without it" not in text


LONG = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "data.train_batch_size=512",
    "data.max_prompt_length=1024",
    "data.max_response_length=32768",
    f"{ROLE}.model.use_remove_padding=True",
    f"{ROLE}.actor.ppo_mini_batch_size=128",
    f"{ROLE}.actor.use_dynamic_bsz=True",
    f"{ROLE}.actor.ppo_max_token_len_per_gpu=33792",
    f"{ROLE}.rollout.tensor_model_parallel_size=1",
    f"{ROLE}.rollout.name=sglang",
    f"{ROLE}.rollout.n=16",
    "trainer.n_gpus_per_node=8",
    "trainer.nnodes=4",
)


@pytest.mark.parametrize("slowed", [False, True])
def test_where_a_step_is_longer_than_counted_a_small_share_is_not_told(tmp_path: Path, slowed: bool) -> None:
    options = ("--gpu", "h100-sxm", "--verl-version", "0.4.0")
    front = "export NCCL_P2P_DISABLE=1\nray start --head\n" if slowed else ""
    file = tmp_path / "run.sh"
    file.write_text(f"{front}python3 -m verl.trainer.main_ppo {' '.join(LONG)}\n")
    given = json.loads(run("advise", str(file), *options, "-f", "json").out)
    assert given["combination"] is None
    (liger,) = [item for item in given["findings"] if item["code"] == "KRN006"]
    assert liger["price"]["change"]["share"] < -0.03 < liger["price"]["change"]["high_share"]
    text = run("advise", str(file), *options).out
    assert ("CFG197" in text) == slowed
    assert ("KRN006 fused-layers\n" in text) != slowed
