"""Environments of conda around a launch pin packages whatever their files are called."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

pytestmark = pytest.mark.sampled(12)

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm"""
OF_0_7_0 = "reward_model.use_reward_loop=True"  # which no other release has
SINCE_0_7_1 = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=4096"


def environment(*packages: str) -> str:
    pins = "".join(f"      - {package}\n" for package in packages)
    return f"name: house\ndependencies:\n  - python=3.10\n  - pip:\n{pins}"


def launch(folder: Path, more: str = "") -> str:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "scripts").mkdir(exist_ok=True)
    script = folder / "scripts/run.sh"
    script.write_text(f"{LAUNCH} {more}\n")
    return str(script)


def premises(folder: Path) -> dict[str, Any]:
    told = run("advise", launch(folder), "--gpu", "h100-sxm", "-f", "json").out
    return dict(json.loads(told)["premises"])


@pytest.mark.parametrize("name", ["house.yml", "house_rl.yaml"])
def test_an_environment_at_the_top_of_a_repository_pins(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(environment("verl==0.5.0", "vllm==0.9.1"))
    told = premises(tmp_path)
    assert (told["release"], told["engine"]) == ("0.5.0", "vLLM 0.9.1")


def test_a_file_without_packages_pins_nothing(tmp_path: Path) -> None:
    (tmp_path / "house.yml").write_text("name: house\nnotes:\n  - verl==0.5.0\n")
    assert premises(tmp_path)["release_likely"]


def test_an_environment_that_a_readme_creates_pins(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/house.yml").write_text(environment("verl==0.5.0"))
    assert premises(tmp_path)["release"] != "0.5.0"
    (tmp_path / "README.md").write_text("```\nconda env create -f envs/house.yml\n```\n")
    assert premises(tmp_path)["release"] == "0.5.0"


def test_the_environment_with_the_trainer_counts_first(tmp_path: Path) -> None:
    (tmp_path / "eval.yml").write_text(environment("vllm==0.8.5"))
    (tmp_path / "house.yml").write_text(environment("verl==0.5.0", "vllm==0.9.1"))
    assert premises(tmp_path)["engine"] == "vLLM 0.9.1"


def test_a_development_version_lies_between_releases(tmp_path: Path) -> None:
    """What the main branch has between two releases may be the keys of each."""
    (tmp_path / "house.yml").write_text(environment("verl==0.7.0.dev0"))
    told = run("advise", launch(tmp_path, f"{OF_0_7_0} {SINCE_0_7_1}"), "--gpu", "h100-sxm").out
    words = " ".join(told.split())
    assert "Nothing names the release" not in words
    assert "house.yml pins verl 0.7.0.dev0, which is no release: verl 0.7.0 is the nearest" in words
    assert "CFG001 unknown-key (verl 0.7.0 or older)" in words
    assert not words.startswith("WILL NOT START")


def test_a_commit_that_a_readme_asks_for_is_told(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "```\ngit clone https://github.com/volcengine/verl\ncd verl && git checkout 4aa02fe18e0b\n```\n"
    )
    told = " ".join(run("advise", launch(tmp_path), "--gpu", "h100-sxm").out.split())
    assert "Nothing names the release" not in told
    assert "README.md asks for the commit 4aa02fe18e of verl, which is no release:" in told
