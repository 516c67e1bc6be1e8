"""``None`` is a text for Hydra: what a launch, and the copy of verl that it lies in, makes of it."""

import json
from pathlib import Path
from typing import Any

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    trainer.n_gpus_per_node=8 trainer.save_freq=20 trainer.default_hdfs_dir=None
"""
LOADS = """class RayPPOTrainer:
    def _load_checkpoint(self):
        if self.config.trainer.default_hdfs_dir is not None:
            raise NotImplementedError("load from hdfs is not implemented yet")
"""
SAVES_ALONE = """class RayPPOTrainer:
    def fit(self):
        remote = None if self.config.trainer.default_hdfs_dir is None else "actor"
        self.actor_rollout_wg.save_checkpoint("here", remote)
"""
COPIES = """class ActorRolloutRefWorker:
    def save_checkpoint(self, local_path, hdfs_path=None):
        if hdfs_path is not None:
            hdfs_io.makedirs(hdfs_path, exist_ok=True)
            hdfs_io.copy(src=local_path, dst=hdfs_path{more})
"""


def found(folder: Path, *, trainer: str, workers: str = COPIES.format(more="")) -> dict[str, Any]:
    for name in (".git", "verl/trainer/ppo", "verl/workers"):
        (folder / name).mkdir(parents=True)
    (folder / "verl/trainer/main_ppo.py").write_text(
        "from verl.trainer.ppo.ray_trainer import RayPPOTrainer\n"
    )
    (folder / "verl/trainer/ppo/ray_trainer.py").write_text(trainer)
    (folder / "verl/workers/fsdp_workers.py").write_text(workers)
    (folder / "run.sh").write_text(LAUNCH)
    return finding(str(folder / "run.sh"))


def finding(*launch: str) -> dict[str, Any]:
    options = ("--gpu", "h100-sxm", "--verl-version", "0.3.0.post1", "-f", "json")
    findings = json.loads(run("advise", *launch, *options).out)["findings"]
    return next(one for one in findings if one["name"] == "none-is-text")


def test_the_release_stops_as_it_looks_for_a_checkpoint() -> None:
    said = finding(*LAUNCH.replace("\\\n", "").split())
    assert said["severity"] == "error"
    assert "raises NotImplementedError" in said["message"]
    assert said["overrides"] == ["trainer.default_hdfs_dir=null"]
    assert not said["yours"]


def test_a_copy_that_does_so_as_well_is_refused_at_its_line(tmp_path: Path) -> None:
    said = found(tmp_path, trainer=LOADS)
    assert said["severity"] == "error"
    assert any("ray_trainer.py:4" in note for note in said["notes"])


def test_a_copy_whose_workers_copy_to_the_folder_stops_at_its_first_checkpoint(tmp_path: Path) -> None:
    said = found(tmp_path, trainer=SAVES_ALONE)
    assert said["severity"] == "warning"
    assert "stops as it is copied to where something is" in said["message"]


def test_a_copy_that_may_copy_there_is_only_told_what_the_word_is(tmp_path: Path) -> None:
    said = found(tmp_path, trainer=SAVES_ALONE, workers=COPIES.format(more=", dirs_exist_ok=True"))
    assert said["severity"] == "warning"
    assert said["message"].endswith("does not take for nothing: the word for that is null")


def test_a_number_that_is_the_text_is_told_the_word() -> None:
    launch = [*LAUNCH.replace("\\\n", "").split(), "trainer.total_training_steps=None"]
    result = run("advise", *launch, "--gpu", "h100-sxm")
    assert result.code == 2
    said = " ".join(result.err.split())
    assert "trainer.total_training_steps: expected a whole number, got 'None'" in said
    assert "the word for nothing is null" in said
