"""A launch whose reward function lies in a file that its repository lacks does not start."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

NAMED = "rewards/format.py"
LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True trainer.n_gpus_per_node=8 "
    "custom_reward_function.path={path}\n"
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in (".git", "rewards", "scripts", "project/functions"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "rewards" / "other.py").touch()
    return tmp_path


def refusals(repository: Path, path: str = NAMED, before: str = "") -> list[str]:
    script = repository / "scripts" / "run.sh"
    script.write_text(before + LAUNCH.format(path=path))
    answer = run("advise", str(script), "--gpu", "h100-sxm", "--verl-version", "0.5.0", "-f", "json")
    report = json.loads(answer.out)
    told = [item["message"] for item in report["findings"] if item["code"] == "CFG211"]
    assert (report["verdict"] == "will_not_start") == bool(told)
    return told


def test_a_file_that_is_not_beside_others_is_refused(repository: Path) -> None:
    (message,) = refusals(repository)
    assert NAMED in message
    assert refusals(repository, str(repository / NAMED))
    assert refusals(repository, before=f"REWARD={NAMED}\n", path="$REWARD")


@pytest.mark.parametrize("place", [NAMED, f"scripts/{NAMED}", f"project/{NAMED}"])
def test_one_that_is_there_for_some_folder_is_not(place: str, repository: Path) -> None:
    (repository / place).parent.mkdir(exist_ok=True)
    (repository / place).touch()
    assert refusals(repository) == []


@pytest.mark.parametrize(
    ("path", "before"),
    [
        ("/elsewhere/rewards/format.py", ""),
        ("functions/format.py", ""),  # a folder without code, which may be fetched
        ("format.py", ""),
        (NAMED, f"cp template.py {NAMED}\n"),
        ("$NOBODY_SAYS/format.py", ""),
    ],
)
def test_one_that_may_be_elsewhere_or_is_made_is_not(path: str, before: str, repository: Path) -> None:
    assert refusals(repository, path, before) == []


@pytest.mark.parametrize("ignored", ["format.py", "/rewards/", "rewards/*.py"])
def test_one_that_git_ignores_is_not(ignored: str, repository: Path) -> None:
    (repository / ".gitignore").write_text(f"*.log\n{ignored}\n")
    assert refusals(repository) == []


def test_outside_of_a_repository_nobody_knows(repository: Path) -> None:
    (repository / ".git").rmdir()
    assert refusals(repository) == []
