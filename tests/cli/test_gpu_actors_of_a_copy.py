"""Actors with GPUs that the program of a copy of verl makes beside the workers, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import read_defaults

pytestmark = pytest.mark.sampled(12)

PROGRAM = """import hydra
import ray
from verl.utils.scorer import Scorer

class RewardManager:
    def __init__(self, holder):
        self.holder = holder

@hydra.main(config_path="config", config_name="ppo_trainer", version_base=None)
def main(config):
    run_ppo(config)

def run_ppo(config):
    ray.get(main_task.remote(config))

@ray.remote
def main_task(config):
    {makes}
    pgs = get_placement_groups(config)
    ray.get([pg.ready() for pg in pgs])
"""
SCORER = "@ray.remote{given}\nclass Scorer:\n    def __init__(self, device):\n        self.device = device\n"
LAUNCH = (
    "{before}python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=840 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.ppo_mini_batch_size=840 actor_rollout_ref.actor.use_dynamic_bsz=True "
    "trainer.n_gpus_per_node={gpus}\n"
)
MADE = "holder = Scorer.remote(device='cuda')"


def advised(
    folder: Path, *, makes: str = MADE, given: str = "(num_gpus=1)", gpus: int = 8, before: str = ""
) -> dict[str, Any]:
    """The answer on a launch in a repository with a copy of verl 0.4.1."""
    for name in (".git", "verl/trainer/config", "verl/utils"):
        (folder / name).mkdir(parents=True)
    tree = dict(read_defaults("0.4.1", "ppo_trainer").tree)
    (folder / "verl" / "trainer" / "config" / "ppo_trainer.yaml").write_text(yaml.safe_dump(tree))
    (folder / "verl" / "trainer" / "main_ppo.py").write_text(PROGRAM.replace("{makes}", makes))
    (folder / "verl" / "utils" / "scorer.py").write_text("import ray\n\n" + SCORER.format(given=given))
    (folder / "run.sh").write_text(LAUNCH.format(before=before, gpus=gpus))
    answer = run("advise", str(folder / "run.sh"), "--gpu", "h100-sxm", "-f", "json")
    assert answer.code == 0, answer.err
    report: dict[str, Any] = json.loads(answer.out)
    return report


def said(report: dict[str, Any], code: str) -> list[str]:
    return [
        " ".join([finding["message"], *finding["notes"]])
        for finding in report["findings"]
        if finding["code"] == code
    ]


def test_a_node_without_a_gpu_for_the_actor_is_told(tmp_path: Path) -> None:
    (text,) = said(advised(tmp_path), "CFG147")
    assert "Scorer (verl/trainer/main_ppo.py:18) 1 more, and a node has at most 8" in text
    assert "trainer.n_gpus_per_node=7 leaves room for it." in text


def test_a_gpu_that_the_workers_leave_is_enough(tmp_path: Path) -> None:
    assert said(advised(tmp_path, gpus=7), "CFG147") == []


def test_more_nodes_are_not_proposed_where_they_leave_none_for_the_actor(tmp_path: Path) -> None:
    report = advised(tmp_path, gpus=16)
    assert ["Scorer" in text for text in said(report, "CFG147")] == [True]
    assert [one["overrides"] for one in report["findings"] if one["code"] == "CFG147"] == [[]]


def test_devices_that_are_shown_have_to_be_enough_for_both(tmp_path: Path) -> None:
    before = "export CUDA_VISIBLE_DEVICES=0,1,2,3\n"
    (text,) = said(advised(tmp_path, gpus=4, before=before), "CFG201")
    assert "sees 4 GPUs, and verl 0.4.1 wants 5" in text
    assert "Show 5 devices by CUDA_VISIBLE_DEVICES." in text


@pytest.mark.parametrize(
    ("makes", "given"),
    [
        (MADE, ""),
        (MADE, "(num_cpus=1)"),
        (MADE, "(num_gpus=0)"),
        ("holder = Scorer.options(num_gpus=0).remote(device='cuda')", "(num_gpus=1)"),
        ("holder = Scorer.options(scheduling_strategy=place).remote(device='cuda')", "(num_gpus=1)"),
        (f"if scores:\n        {MADE}", "(num_gpus=1)"),
        (f"if config.trainer.get('scores', False):\n        {MADE}", "(num_gpus=1)"),
        ("holder = None", "(num_gpus=1)"),
    ],
)
def test_what_takes_no_gpu_for_sure_says_nothing(makes: str, given: str, tmp_path: Path) -> None:
    assert said(advised(tmp_path, makes=makes, given=given), "CFG147") == []


@pytest.mark.parametrize(
    ("makes", "given"),
    [
        ("holder = Scorer.options(num_gpus=2).remote(device='cuda')", ""),
        (f"if config.trainer.n_gpus_per_node == 8:\n        {MADE}", "(num_gpus=2)"),
        # what "or" gives is the part that decides, and a choice is followed
        (f"if (config.trainer.get('scorer') or 'own') == 'own':\n        {MADE}", "(num_gpus=2)"),
        (f"if (True if config.trainer.nnodes == 1 else scores):\n        {MADE}", "(num_gpus=2)"),
        (f"if config.trainer.n_gpus_per_node // 2 == 4:\n        {MADE}", "(num_gpus=2)"),
        (f"{MADE}\n    other = Scorer.remote(device='cuda')", "(num_gpus=0.75)"),
    ],
)
def test_what_the_actors_take_is_added_up(makes: str, given: str, tmp_path: Path) -> None:
    (text,) = said(advised(tmp_path, makes=makes, given=given), "CFG147")
    assert " 2 more" in text
