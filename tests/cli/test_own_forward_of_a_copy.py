"""Liger and fused heads are offered only to workers of a copy that ask the model for what releases do."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 \\
    data.max_prompt_length=1024 data.max_response_length=1024 actor_rollout_ref.rollout.n=4 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=8"""
WORKER = """class DataParallelPPOActor:
    def _forward_micro_batch(self, micro_batch, temperature):
        extra = {}
        extra["temperature"] = temperature
        ARGUMENT
        output = self.actor_module(input_ids=micro_batch["input_ids"], use_cache=False, **extra)
        logits = output.logits
        READ
        return logits
"""
READS = "use(config.model.use_liger, config.model.use_fused_kernels, config.model.fused_kernel_options)\n"


def offered(repository: Path, argument: str, read: str) -> set[str]:
    for name in (".git", "verl/trainer", "verl/workers/actor"):
        (repository / name).mkdir(parents=True, exist_ok=True)
    (repository / "verl" / "trainer" / "main_ppo.py").write_text("VALUE = 1\n")
    worker = WORKER.replace("ARGUMENT", argument).replace("READ", read)
    (repository / "verl" / "workers" / "actor" / "dp_actor.py").write_text(worker)
    (repository / "verl" / "workers" / "fsdp_workers.py").write_text(READS)
    (repository / "run.sh").write_text(LAUNCH)
    script = str(repository / "run.sh")
    answer = run("advise", script, "--gpu", "h100-sxm", "--verl-version", "0.7.1", "-f", "json")
    codes = {finding["code"] for finding in json.loads(answer.out)["findings"]}
    return codes & {"KRN001", "KRN006"}


def test_fused_parts_are_offered_to_workers_that_ask_for_what_releases_do(tmp_path: Path) -> None:
    assert "KRN006" in offered(tmp_path, "pass", "states = output.hidden_states")


@pytest.mark.parametrize(
    ("argument", "read"),
    [
        ("pass", "scores = output.scores_of_heads"),
        ('extra["heads"] = [1, 2]', "pass"),
    ],
)
def test_none_are_to_workers_that_need_the_forward_of_a_model_of_their_own(
    tmp_path: Path, argument: str, read: str
) -> None:
    assert not offered(tmp_path, argument, read)
