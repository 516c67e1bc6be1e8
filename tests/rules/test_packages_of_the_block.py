"""What the answer says of a package that is part of the block: that nothing fits without it only where so."""

import json

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
