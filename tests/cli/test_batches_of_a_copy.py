"""Copies of verl that multiply a step's batch by keys of their own are counted with them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 data.train_batch_size=32 \\
    data.max_prompt_length=2048 data.max_response_length=2048 \\
    actor_rollout_ref.actor.use_dynamic_bsz=False actor_rollout_ref.model.use_remove_padding=True \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2 \\
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2 trainer.n_gpus_per_node=8 \\
"""
TRAINER = """class RayPPOTrainer:
    def _validate(self):
        test_batch = test_batch.repeat(repeat_times=self.config.actor_rollout_ref.rollout.val_kwargs.n)

    def fit(self):
        for batch in self.loader:
            batch = batch.repeat(repeat_times=self.config.{key}, interleave=True)
"""
WORKERS = """class ActorRolloutRefWorker:
    def __init__(self, config):
        self.config = config
        if self._is_actor:
            if self.config.rollout.tree.enable:
                self.config.actor.ppo_mini_batch_size *= (
                    self.config.rollout.tree.m * self.config.rollout.tree.k
                )
                self.config.actor.ppo_micro_batch_size_per_gpu *= (
                    self.config.rollout.tree.m * self.config.rollout.tree.k // 2
                )
            else:
                self.config.actor.ppo_mini_batch_size *= self.config.rollout.n
            self.config.actor.ppo_mini_batch_size //= self.device_mesh.size()

    def later(self):
        self.config.actor.ppo_mini_batch_size *= self.config.rollout.tree.other
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in (".git", "verl/trainer/ppo", "verl/workers"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "verl/trainer/main_ppo.py").write_text(
        "from verl.trainer.ppo.ray_trainer import RayPPOTrainer\n"
    )
    (tmp_path / "verl/trainer/ppo/ray_trainer.py").write_text(TRAINER.format(key="agent.n"))
    (tmp_path / "verl/trainer/ppo/other_trainer.py").write_text(TRAINER.format(key="agent.others"))
    (tmp_path / "verl/workers/fsdp_workers.py").write_text(WORKERS)
    return tmp_path


def answer(repository: Path, *arguments: str) -> dict[str, Any]:
    (repository / "run.sh").write_text(LAUNCH + " ".join(arguments) + "\n")
    result = run(
        "advise", str(repository / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.4.1", "-f", "json"
    )
    loaded: dict[str, Any] = json.loads(result.out)
    return loaded


def sizes(report: dict[str, Any]) -> tuple[int, int]:
    batch = report["workload"]["batch"]
    return batch["prompts"], batch["mini_batch_prompts"]


ACTOR = "actor_rollout_ref.actor"
TREE = tuple(f"+actor_rollout_ref.rollout.tree.{it}" for it in ("enable=True", "m=2", "k=3", "other=5"))


def test_a_batch_that_the_trainer_repeats_is_counted_so(repository: Path) -> None:
    mini = (f"{ACTOR}.ppo_mini_batch_size=512", f"{ACTOR}.ppo_micro_batch_size_per_gpu=2")
    report = answer(repository, "+agent.n=16", "+agent.others=3", *mini)
    assert sizes(report) == (512, 512)
    assert "CFG111" not in {item["code"] for item in report["findings"]}
    plain = answer(repository, *mini)
    assert "CFG111" in {item["code"] for item in plain["findings"]}
    assert report["step_time"]["seconds"] > plain["step_time"]["seconds"] * 2


def test_sizes_that_the_workers_scale_are_counted_and_written_back(repository: Path) -> None:
    launch = (f"{ACTOR}.ppo_mini_batch_size=16", f"{ACTOR}.ppo_micro_batch_size_per_gpu=4", "+agent.n=6")
    report = answer(repository, *TREE, *launch)
    assert sizes(report) == (192, 96)
    assert report["workload"]["actor"]["update"]["batching"]["micro_batch_sequences"] == 12
    smaller = next(item for item in report["findings"] if item["code"] == "BAT005")
    written = next(text for text in smaller["overrides"] if "ppo_micro_batch_size_per_gpu=" in text)
    assert int(written.partition("=")[2]) in (1, 2, 3)  # of each of which the workers make three


def test_a_branch_that_the_settings_leave_scales_nothing(repository: Path) -> None:
    off = ("+actor_rollout_ref.rollout.tree.enable=False", *TREE[1:])
    report = answer(
        repository, *off, f"{ACTOR}.ppo_mini_batch_size=16", f"{ACTOR}.ppo_micro_batch_size_per_gpu=2"
    )
    assert sizes(report) == (32, 16)
