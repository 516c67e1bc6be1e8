"""Liger's layers are offered only where it starts with the transformers of the repository."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 \\
    data.max_prompt_length=1024 data.max_response_length=1024 actor_rollout_ref.rollout.n=4 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \\
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=8"""


def codes(repository: Path, *words: str) -> set[str]:
    (repository / ".git").mkdir(exist_ok=True)
    script = repository / "scripts" / "run.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_text(LAUNCH)
    options = ("--gpu", "h100-sxm", "--verl-version", "0.7.1", "-f", "json")
    answer = run("advise", str(script), *words, *options)
    return {finding["code"] for finding in json.loads(answer.out)["findings"]}


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        ("transformers==4.51.1\nliger-kernel==0.8.1\n", False),
        ("transformers==4.52.0\nliger-kernel==0.8.1\n", True),
        ("transformers==4.51.1\nliger-kernel==0.6.5\n", True),
        ("transformers==4.57.3\nliger-kernel==0.8.5\n", False),
        ("transformers<=4.51.1\nliger-kernel\n", False),
        ("transformers==4.57.3\n", True),
        ("transformers\nliger-kernel==0.8.5\n", True),
    ],
)
def test_liger_is_offered_where_it_starts(tmp_path: Path, asked: str, offered: bool) -> None:
    (tmp_path / "requirements.txt").write_text(asked)
    assert ("KRN006" in codes(tmp_path)) is offered


def test_the_file_beside_the_script_counts_before_the_repository(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("transformers==4.57.3\nliger-kernel==0.8.1\n")
    assert "KRN006" in codes(tmp_path)
    (tmp_path / "scripts" / "requirements.txt").write_text("transformers==4.51.1\n")
    assert "KRN006" not in codes(tmp_path)


def test_layers_that_are_not_offered_are_not_taken_for_those_of_a_tower(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("transformers==4.51.1\nliger-kernel==0.8.1\n")
    assert "CFG165" not in codes(tmp_path, "actor_rollout_ref.model.use_liger=True")


@pytest.mark.parametrize(
    ("files", "installed"),
    [
        ({"requirements.txt": "liger-kernel\n", "README.md": "pip install -r requirements.txt\n"}, True),
        ({"requirements.txt": "liger-kernel\n"}, False),
        ({"requirements.txt": "torch\n", "README.md": "pip install -r requirements.txt\n"}, False),
        ({"install.sh": "pip install --no-deps liger-kernel==0.7.0\n"}, True),
        ({"README.md": "liger-kernel is optional\n"}, False),
    ],
)
def test_liger_that_the_files_install_stands_in_the_block(
    tmp_path: Path, files: dict[str, str], installed: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert "KRN006" in codes(tmp_path)
    text = run(
        "advise", str(tmp_path / "scripts" / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.7.1"
    ).out
    assert ("With liger-kernel installed" in text) is not installed
    assert "actor_rollout_ref.model.use_liger=True" in text
