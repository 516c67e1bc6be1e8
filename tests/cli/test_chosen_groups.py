"""A config group without a choice in a copy's own configuration, of which the command line chooses."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import CONFIGS, read_defaults

LAUNCH = "python3 -m verl.trainer.main_ppo {words} trainer.n_gpus_per_node=4"
SIZES = """# @package _global_
data:
  train_batch_size: 64
actor_rollout_ref:
  model:
    path: Qwen/Qwen2.5-7B-Instruct
  rollout:
    name: vllm
    tensor_model_parallel_size: 4
  actor:
    use_dynamic_bsz: true
"""
SMALL = """# @package _global_
actor_rollout_ref:
  rollout:
    tensor_model_parallel_size: 1
"""


@pytest.fixture(params=["[]", "null"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A repository with a copy of verl whose configuration has an open group."""
    config = tmp_path / "verl" / "trainer" / "config"
    (tmp_path / ".git").mkdir()
    (config / "plans").mkdir(parents=True)
    (tmp_path / "verl" / "trainer" / "main_ppo.py").write_text("config.data.train_batch_size\n")
    (config / "plans" / "sizes.yaml").write_text(SIZES)
    (config / "plans" / "small.yaml").write_text(SMALL)
    own = yaml.safe_dump(dict(read_defaults("0.6.1", CONFIGS[0]).tree))
    listed = f"defaults:\n  - _self_\n  - /plans: {request.param}\n"
    (config / "ppo_trainer.yaml").write_text(listed + own)
    return tmp_path


def asked(repository: Path, words: str) -> tuple[dict[str, Any], str]:
    (repository / "run.sh").write_text(LAUNCH.format(words=words))
    answer = run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm", "-f", "json")
    return (json.loads(answer.out) if answer.out else {}), answer.err


def test_the_chosen_files_are_laid_on_in_their_order(repository: Path) -> None:
    answer, err = asked(repository, "plans='[sizes,small]' data.max_response_length=2048")
    assert not err
    workload = answer["workload"]
    assert workload["batch"]["prompts"] == 64
    assert workload["rollout"]["tensor_parallel"] == 1
    assert workload["batch"]["max_response_tokens"] == 2048
    assert "CFG001" not in {finding["code"] for finding in answer["findings"]}


def test_what_is_typed_wins_over_a_chosen_file(repository: Path) -> None:
    answer, err = asked(repository, "data.train_batch_size=32 plans=sizes")
    assert not err
    assert answer["workload"]["batch"]["prompts"] == 32
    assert answer["workload"]["rollout"]["tensor_parallel"] == 4


def test_a_file_that_is_not_there_is_said_to_be_missing(repository: Path) -> None:
    _answer, err = asked(repository, "plans='[sizes,other]'")
    assert "plans/other.yaml" in err
