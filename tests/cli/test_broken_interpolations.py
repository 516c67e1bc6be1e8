"""Interpolations that have no value end a job whose program resolves all of them, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.inputs.tree import merged, nested
from tuner.trainers.verl.defaults import read_defaults

LAUNCH = (
    "python -m verl.trainer.main_ppo data.train_batch_size=128 trainer.n_gpus_per_node=8 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 critic.ppo_micro_batch_size_per_gpu=1 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 "
)
RESOLVES = "from omegaconf import OmegaConf\n\ndef main(config):\n    OmegaConf.resolve(config)\n"
ITSELF = "${reward_model.kind}"


def broken(folder: Path, *words: str) -> list[dict[str, Any]]:
    (folder / "run.sh").write_text(" ".join([LAUNCH, *words]) + "\n")
    answer = run(
        "check", str(folder / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.5.0", "-f", "json"
    )
    findings = json.loads(answer.out)["findings"]
    return [finding for finding in findings if finding["code"] == "CFG208"]


def copy_with(folder: Path, kind: str, program: str = RESOLVES) -> None:
    """A copy of verl 0.5.0 whose YAML has a key of its own."""
    for name in (".git", "verl/trainer/config"):
        (folder / name).mkdir(parents=True)
    (folder / "verl" / "trainer" / "main_ppo.py").write_text(program)
    tree = merged(read_defaults("0.5.0", "ppo_trainer").tree, nested(("reward_model", "kind"), kind))
    (folder / "verl" / "trainer" / "config" / "ppo_trainer.yaml").write_text(yaml.safe_dump(tree))


def test_a_key_of_a_copy_that_names_itself_ends_the_job(tmp_path: Path) -> None:
    copy_with(tmp_path, ITSELF)
    (finding,) = broken(tmp_path)
    assert "reward_model.kind -> reward_model.kind is a circle" in finding["message"]
    assert "verl/trainer/main_ppo.py:4" in finding["message"]
    assert any("reward_model.kind=..." in note for note in finding["notes"])
    assert not broken(tmp_path, "reward_model.kind=rule")


@pytest.mark.parametrize(
    ("kind", "program"),
    [
        (ITSELF, "def main(config):\n    pass\n"),
        ("${oc.env:KIND}", RESOLVES),
        ("${mine:trainer.nnodes}", RESOLVES),
        ("${KIND}", RESOLVES),
        ("${data.train_batch_size}", RESOLVES),
    ],
    ids=["program-resolves-nothing", "environment", "resolver", "filled-in", "a-value"],
)
def test_what_may_have_a_value_is_none(tmp_path: Path, kind: str, program: str) -> None:
    copy_with(tmp_path, kind, program)
    assert not broken(tmp_path)


def test_a_launch_on_a_release_may_break_one(tmp_path: Path) -> None:
    (missing,) = broken(tmp_path, "'trainer.experiment_name=${trainer.run}'")
    assert "trainer.experiment_name points at trainer.run, which does not exist" in missing["message"]
    assert not broken(tmp_path, "'trainer.experiment_name=${trainer.project_name}'")
    assert not broken(tmp_path, "trainer.experiment_name=$RUN", "trainer.project_name=${PROJECT}-$(date)")


def test_numbers_of_the_release_take_the_place_of_what_is_not_there(tmp_path: Path) -> None:
    heat = "actor_rollout_ref.rollout.val_kwargs.temperature"
    (missing,) = broken(tmp_path, f"'{heat}=${{heat}}'")
    assert missing["overrides"] == [f"{heat}=0"]
    assert any("verl 0.5.0" in note and "+heat=..." in note for note in missing["notes"])


def test_no_value_is_made_up_where_one_of_several_keys_is_no_number(tmp_path: Path) -> None:
    heat = "actor_rollout_ref.rollout.val_kwargs.temperature"
    (missing,) = broken(tmp_path, f"'{heat}=${{heat}}'", "'trainer.experiment_name=${heat}'")
    assert missing["overrides"] == []
