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

TREE = """
search: {width: 4}
algorithm: {adv_estimator: gae}
actor_rollout_ref: {model: {path: null}, rollout: {name: vllm, n: 2}}
trainer: {n_gpus_per_node: 8, nnodes: 1}
"""


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


def of_a_recipe(repository: Path, module: str, *files: str) -> dict[str, Any]:
    """The answer on a launch of a recipe's program, with these files of that name in the tree."""
    for file in files:
        program = repository / "recipe" / file
        (program.parent / "config").mkdir(parents=True)
        program.write_text(
            "import hydra\n\n"
            "@hydra.main(config_path='config', config_name='tree_trainer', version_base=None)\n"
            "def main(config):\n    pass\n"
        )
        (program.parent / "config" / "tree_trainer.yaml").write_text(TREE)
    script = repository / "scripts" / "run.sh"
    script.write_text(f"python3 -m {module} search.width=8{ARGUMENTS}")
    answer = run("advise", str(script), "--gpu", "h100-sxm", "--verl-version", "0.4.1", "-f", "json")
    report: dict[str, Any] = json.loads(answer.out)
    return report


def test_the_only_module_of_its_name_is_told_and_read_in_the_place_of_one_that_is_not_there(
    repository: Path,
) -> None:
    report = of_a_recipe(repository, "recipe.trees.src.main_search", "forest/src/main_search.py")
    messages = {item["code"]: item["message"] for item in report["findings"]}
    assert report["verdict"] == "will_not_start"
    assert "recipe.trees.src.main_search is not there" in messages["CFG200"]
    assert "recipe.forest.src.main_search" in messages["CFG200"]
    assert "CFG001" not in messages  # its configuration has search.width


def test_of_several_modules_of_its_name_none_is_read(repository: Path) -> None:
    report = of_a_recipe(repository, "recipe.trees.main_search", "one/main_search.py", "two/main_search.py")
    messages = {item["code"]: item["message"] for item in report["findings"]}
    assert "recipe.one.main_search, recipe.two.main_search" in messages["CFG200"]
    assert "CFG001" not in messages


@pytest.mark.parametrize("program", ["-m own.trees.main_search", "own/main_search.py"])
def test_of_a_program_that_is_not_here_no_key_is_unknown(repository: Path, program: str) -> None:
    script = repository / "scripts" / "run.sh"
    script.write_text(f"python3 {program} search.width=8{ARGUMENTS}")
    answer = run("advise", str(script), "--gpu", "h100-sxm", "--verl-version", "0.4.1", "-f", "json")
    report = json.loads(answer.out)
    assert "CFG001" not in {item["code"] for item in report["findings"]}
    assert "main_search" in report["premises"]["missing_configuration"]["reason"]
