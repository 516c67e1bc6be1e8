"""Keys of a recipe in the configuration of verl's own program are no recipe: nothing of it is run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

FILE = """
defaults: [ppo_trainer, _self_]
actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-0.5B-Instruct}
  rollout: {name: vllm, tensor_model_parallel_size: 1, log_prob_micro_batch_size_per_gpu: 4}
  actor: {ppo_micro_batch_size_per_gpu: 4, ppo_mini_batch_size: 32}
data: {train_batch_size: 64}
algorithm: {adv_estimator: grpo}
trainer: {n_gpus_per_node: 2, nnodes: 1}
async_training:
  {staleness_threshold: 0.0, trigger_parameter_sync_step: 1, require_batches: 1, partial_rollout: false,
   use_rollout_log_probs: true, compute_prox_log_prob: false}
rollout: {nnodes: 1, n_gpus_per_node: 2, n: 4, total_rollout_steps: 0}
"""


def answer(folder: Path, program: str) -> dict[str, Any]:
    (folder / "own.yaml").write_text(FILE)
    (folder / "run.sh").write_text(f"python3 -m {program} --config-path . --config-name own")
    options = ("--gpu", "h100-sxm", "--verl-version", "0.7.0", "-f", "json")
    result = run("advise", str(folder / "run.sh"), *options)
    assert result.code == 0, result.err
    content: dict[str, Any] = json.loads(result.out)
    return content


def codes(content: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in content["findings"]}


def test_the_ppo_trainer_has_no_gpus_for_generation_alone(tmp_path: Path) -> None:
    content = answer(tmp_path, "verl.trainer.main_ppo")
    assert content["workload"]["rollout"]["colocated"] is True
    assert content["workload"]["batch"]["prompts"] == 64
    assert content["workload"]["actor"]["log_prob"] is not None
    assert "CFG172" not in codes(content)


@pytest.mark.parametrize("program", ["recipe.fully_async_policy.fully_async_main", "own.program"])
def test_another_program_is_told_by_these_keys(tmp_path: Path, program: str) -> None:
    content = answer(tmp_path, program)
    assert content["workload"]["rollout"]["colocated"] is False
    assert "CFG172" in codes(content)


RECIPE = """hydra: {searchpath: ["file://verl/trainer/config"]}
defaults: [ppo_trainer, _self_]
data: {gen_batch_size: 64}
algorithm: {filter_groups: {enable: false, metric: null, max_num_gen_batches: 0}}
"""
MAIN = """import hydra

@hydra.main(config_path="config", config_name="dapo_trainer", version_base=None)
def main(config):
    run_ppo(config)
"""


def test_a_recipe_in_the_tree_has_the_keys_of_its_own_file_alone(tmp_path: Path) -> None:
    """The recipe of that release has ``reward.overlong_buffer``: nobody is sent there."""
    (tmp_path / ".git").mkdir()
    recipe = tmp_path / "recipe" / "dapo"
    (recipe / "config").mkdir(parents=True)
    (recipe / "main_dapo.py").write_text(MAIN)
    (recipe / "config" / "dapo_trainer.yaml").write_text(RECIPE)
    (tmp_path / "run.sh").write_text(
        "python3 -m recipe.dapo.main_dapo actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct "
        "reward_model.overlong_buffer.len=512 algorithm.adv_estimator=grpo trainer.n_gpus_per_node=2"
    )
    options = ("--gpu", "h100-sxm", "--verl-version", "0.7.1", "-f", "json")
    content = json.loads(run("advise", str(tmp_path / "run.sh"), *options).out)
    (told,) = (one["message"] for one in content["findings"] if one["code"] == "CFG001")
    assert "reward_model.overlong_buffer.len" in told
    assert "nearest known key" not in told
