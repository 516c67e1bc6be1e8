"""A configuration that takes values from variables has those of the launch, else the defaults beside them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

FILE = """
defaults: [ppo_trainer, _self_]
actor_rollout_ref:
  model: {path: "${oc.env:POLICY,Qwen/Qwen2.5-0.5B-Instruct}"}
  rollout:
    {name: "${oc.env:ENGINE,vllm}", tensor_model_parallel_size: 1, log_prob_micro_batch_size_per_gpu: 4}
  actor: {ppo_micro_batch_size_per_gpu: 4, ppo_mini_batch_size: 32}
data: {train_batch_size: "${oc.decode:${oc.env:PROMPTS,64}}"}
algorithm: {adv_estimator: grpo}
trainer: {n_gpus_per_node: 1, nnodes: 1}
"""
LAUNCH = "python3 -m verl.trainer.main_ppo --config-path . --config-name own"


def launch(folder: Path, script: str) -> Path:
    (folder / "own.yaml").write_text(FILE)
    (folder / "run.sh").write_text(script)
    return folder / "run.sh"


def workload(folder: Path, script: str, *words: str) -> dict[str, Any]:
    options = ("--gpu", "h100-sxm", "--verl-version", "0.7.0", "-f", "json")
    result = run("advise", str(launch(folder, script)), *words, *options)
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)["workload"]
    return answer


def test_variables_that_nobody_sets_have_their_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMPTS", "32")  # of whoever asks, not of the job
    assert workload(tmp_path, LAUNCH)["batch"]["prompts"] == 64


@pytest.mark.parametrize(
    "script",
    [
        f"export PROMPTS=96\n{LAUNCH}",
        f"PROMPTS=96 {LAUNCH}",
        f"env PROMPTS=96 {LAUNCH}",
        f"set -a\nPROMPTS=96\n{LAUNCH}",
        f'ray job submit --runtime-env-json=\'{{"env_vars": {{"PROMPTS": "96"}}}}\' -- {LAUNCH}',
    ],
    ids=["exported", "in front", "by env", "all exported", "by ray"],
)
def test_a_variable_that_the_launch_sets_wins(tmp_path: Path, script: str) -> None:
    assert workload(tmp_path, script)["batch"]["prompts"] == 96


def test_one_of_the_shell_alone_does_not_reach_the_program(tmp_path: Path) -> None:
    assert workload(tmp_path, f"PROMPTS=96\n{LAUNCH}")["batch"]["prompts"] == 64


def test_one_given_behind_the_script_reaches_it(tmp_path: Path) -> None:
    assert workload(tmp_path, LAUNCH, "PROMPTS=96")["batch"]["prompts"] == 96


def test_one_that_only_a_run_tells_is_not_taken_for_its_default(tmp_path: Path) -> None:
    result = run("advise", str(launch(tmp_path, f"export PROMPTS=$(compute)\n{LAUNCH}")), "--gpu", "h100-sxm")
    assert result.code == 2
    assert "the interpolation ${oc.decode:${oc.env:PROMPTS,64}} is not evaluated here" in result.err
