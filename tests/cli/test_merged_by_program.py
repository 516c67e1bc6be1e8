"""A program that merges YAML files by its own code is read file by file, in its order, or said not to be."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

PROGRAM = """import argparse
import sys
from omegaconf import OmegaConf
from verl.trainer.main_ppo import run_ppo

def layered(path, rest):
    config = OmegaConf.load("conf/base.yaml")
    if path is not None:
        config = OmegaConf.merge(config, OmegaConf.load(path))
    return OmegaConf.merge(config, OmegaConf.from_dotlist(rest))

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default=None)
    args, rest = parser.parse_known_args()
    config = layered(args.config, rest)
    CHANGE
    run_ppo(config)

if __name__ == "__main__":
    main()
"""
BASE = """data: {train_batch_size: 96}
algorithm: {adv_estimator: grpo}
actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-0.5B}
  actor: {ppo_mini_batch_size: 32, ppo_micro_batch_size_per_gpu: 2}
  rollout: {name: vllm, n: 8, tensor_model_parallel_size: 1, log_prob_micro_batch_size_per_gpu: 2}
trainer: {n_gpus_per_node: 4, nnodes: 1}
"""
MODEL = "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B"
MINE = "data: {train_batch_size: 64}\nactor_rollout_ref: {rollout: {n: 4}}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "base.yaml").write_text(BASE)
    (tmp_path / "conf" / "mine.yaml").write_text(MINE)
    (tmp_path / ".git").mkdir()
    return tmp_path


def advised(project: Path, launch: str, change: str = "pass", program: str = PROGRAM) -> dict[str, Any]:
    (project / "train.py").write_text(program.replace("CHANGE", change))
    (project / "run.sh").write_text(f"python train.py {launch}\n")
    answer = run(
        "advise", str(project / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.7.1", "-f", "json"
    )
    assert answer.out, answer.err
    return dict(json.loads(answer.out))


@pytest.mark.parametrize(
    ("launch", "prompts", "responses"),
    [
        ("--config conf/mine.yaml", 64, 4),
        ("--config=conf/mine.yaml data.train_batch_size=32", 32, 4),
        ("actor_rollout_ref.rollout.n=2", 96, 2),
    ],
)
def test_files_and_arguments_are_laid_in_the_programs_order(
    project: Path, launch: str, prompts: int, responses: int
) -> None:
    answer = advised(project, launch)
    batch = answer["workload"]["batch"]
    assert (batch["prompts"], batch["responses_per_prompt"]) == (prompts, responses)
    assert answer["premises"]["missing_configuration"] is None
    assert not [line for line in answer["combination"]["overrides"] if line.startswith("+")]


LOOP = """for word in rest:
        key, value = word.split("=", 1)
        OmegaConf.update(config, key, value)"""


def test_a_loop_over_the_arguments_lays_them(project: Path) -> None:
    answer = advised(project, "data.train_batch_size=32", f"config = layered(None, [])\n    {LOOP}")
    assert answer["workload"]["batch"]["prompts"] == 32
    assert answer["premises"]["missing_configuration"] is None


def test_what_a_function_sets_in_place_counts(project: Path) -> None:
    smaller = "def smaller(config):\n    config.data.train_batch_size = 8\n\ndef main"
    program = PROGRAM.replace("def main", smaller)
    answer = advised(project, "--config conf/mine.yaml", "smaller(config)", program)
    assert answer["workload"]["batch"]["prompts"] == 8


def test_what_the_code_sets_counts_and_lies_on_top(project: Path) -> None:
    answer = advised(project, "data.train_batch_size=32", "config.data.train_batch_size = 16")
    assert answer["workload"]["batch"]["prompts"] == 16


@pytest.mark.parametrize(
    ("launch", "change"),
    [
        ("--config conf/mine.yaml", "config = OmegaConf.merge(config, own())"),
        ("--config conf/lost.yaml", "pass"),
        ("data.train_batch_size=32", "for _ in own():\n        config.data.train_batch_size = 1"),
    ],
)
def test_what_is_not_known_is_told_and_nothing_is_to_be_pasted(
    project: Path, launch: str, change: str
) -> None:
    answer = advised(project, f"{launch} {MODEL}", change)
    assert answer["premises"]["missing_configuration"] is not None
    assert answer["combination"] is None
    assert answer["verdict"] == "cannot_say"
