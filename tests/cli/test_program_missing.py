"""A launch whose module is not in the copy of verl that Python would import does not start."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

ARGUMENTS = (
    " algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct "
    "actor_rollout_ref.rollout.name=vllm trainer.n_gpus_per_node=8\n"
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in (".git", "verl/trainer", "verl/workers", "scripts"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("__init__.py", "trainer/__init__.py", "trainer/main_ppo_format_two.py", "trainer/other.py"):
        (tmp_path / "verl" / name).write_text("VALUE = 1\n")
    return tmp_path


def refusals(repository: Path, launch: str) -> tuple[str, list[str]]:
    script = repository / "scripts" / "run.sh"
    script.write_text(launch + ARGUMENTS)
    answer = run("advise", str(script), "--gpu", "h100-sxm", "--verl-version", "0.4.1", "-f", "json")
    report: dict[str, Any] = json.loads(answer.out)
    return report["verdict"], [item["message"] for item in report["findings"] if item["code"] == "CFG200"]


def test_a_module_that_the_copy_lacks_is_told_with_its_neighbours(repository: Path) -> None:
    verdict, (message,) = refusals(repository, "python3 -m verl.trainer.main_ppo_format")
    assert verdict == "will_not_start"
    assert "no module verl.trainer.main_ppo_format:" in message
    assert "near it are verl.trainer.main_ppo_format_two" in message


@pytest.mark.parametrize(
    "launch",
    [
        "python3 -m verl.trainer.main_ppo_format_two",
        "cd /elsewhere\npython3 -m verl.trainer.main_ppo_format",
        "python3 somewhere/main_ppo_format.py",
    ],
    ids=["there", "another folder", "a file"],
)
def test_one_that_is_there_or_may_be_elsewhere_is_not(repository: Path, launch: str) -> None:
    assert refusals(repository, launch)[1] == []


def test_a_folder_that_is_no_package_by_itself_comes_behind_the_installed_one(repository: Path) -> None:
    (repository / "verl" / "__init__.py").unlink()
    assert refusals(repository, "python3 -m verl.trainer.main_ppo_format")[1] == []
