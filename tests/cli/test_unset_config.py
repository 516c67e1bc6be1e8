"""A script whose ``--config-name`` is a variable that nobody sets takes what its program's code names."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import read_defaults

PROGRAM = """import hydra

@hydra.main(config_path="config", config_name="NAMED", version_base=None)
def main(config):
    run_ppo(config)
"""
WORKER = """class ActorRolloutRefWorker:
    def _build_rollout(self):
        return vLLMRollout(model_path=self.local_path, config=self.config.rollout, READ=1)

    def init_model(self):
        self.ref_module_fsdp = self._build_model_optimizer(model_path=PATH)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a program that reads a configuration of its own, in which a batch is larger."""
    recipe = tmp_path / "recipe" / "own"
    (recipe / "config").mkdir(parents=True)
    (recipe / "main_own.py").write_text(PROGRAM.replace("NAMED", "own_trainer"))
    tree = dict(read_defaults("0.4.1", "ppo_trainer").tree)
    tree["data"] = {**tree["data"], "train_batch_size": 96}
    (recipe / "config" / "own_trainer.yaml").write_text(yaml.safe_dump(tree))
    (tmp_path / ".git").mkdir()
    (tmp_path / "run.sh").write_text(
        "while [ $# -gt 0 ]; do case $1 in --config) CONFIG=$2; shift 2;; *) shift;; esac; done\n"
        "python3 -m recipe.own.main_own --config-name $CONFIG algorithm.adv_estimator=grpo "
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B\n"
    )
    return tmp_path


def advised(project: Path, *words: str) -> dict[str, Any]:
    answer = run(
        *("advise", str(project / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.4.1", "-f", "json"),
        *words,
    )
    return dict(json.loads(answer.out))


def batch(answer: dict[str, Any]) -> int:
    return int(answer["workload"]["batch"]["prompts"])


def test_the_name_of_the_programs_code_is_taken_and_stays_open(project: Path) -> None:
    answer = run("advise", str(project / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.4.1", "--full")
    words = " ".join(answer.out.split())
    assert "--config-name is $CONFIG; " in words and "give CONFIG=VALUE" in words
    assert "own_trainer.yaml is taken, which the program's code names" in words
    assert "is not here" not in words


def test_its_values_are_those_of_the_job(project: Path) -> None:
    assert batch(advised(project)) == 96


def test_a_name_that_is_set_is_no_open_one(project: Path) -> None:
    folder = project / "recipe" / "own" / "config"
    tree = yaml.safe_load((folder / "own_trainer.yaml").read_text())
    tree["data"]["train_batch_size"] = 64
    (folder / "other.yaml").write_text(yaml.safe_dump(tree))
    assert batch(advised(project, "CONFIG=other")) == 64


def test_where_the_code_names_none_in_the_tree_the_configuration_is_missing(project: Path) -> None:
    (project / "recipe" / "own" / "main_own.py").write_text(PROGRAM.replace("NAMED", "elsewhere"))
    answer = run("advise", str(project / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.4.1")
    assert "$CONFIG is not here" in " ".join(answer.out.split())


@pytest.mark.parametrize(("path", "counted"), [("local_path", True), ("self.config.model_path", False)])
def test_an_option_whose_name_is_a_parameter_alone_adds_no_model(
    project: Path, path: str, counted: bool
) -> None:
    workers = project / "verl" / "workers"
    workers.mkdir(parents=True)
    (project / "verl" / "trainer" / "config").mkdir(parents=True)
    (project / "verl" / "trainer" / "main_ppo.py").write_text(PROGRAM.replace("NAMED", "ppo_trainer"))
    (project / "verl" / "version").mkdir()
    (project / "verl" / "version" / "version").write_text("0.4.1")
    tree = dict(read_defaults("0.4.1", "ppo_trainer").tree)
    (project / "verl" / "trainer" / "config" / "ppo_trainer.yaml").write_text(yaml.safe_dump(tree))
    (workers / "fsdp_workers.py").write_text(WORKER.replace("PATH", path))
    answer = advised(project, "+actor_rollout_ref.rollout.model_path=Qwen/Qwen2.5-0.5B")
    left_out = [part["key"] for part in answer["left_out"]]
    assert ("actor_rollout_ref.rollout.model_path" not in left_out) is counted
