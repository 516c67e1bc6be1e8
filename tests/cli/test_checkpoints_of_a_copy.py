"""What copies of verl write into a checkpoint is read in their workers."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct critic.model.path=Qwen/Qwen2.5-3B-Instruct \\
    actor_rollout_ref.rollout.name=vllm data.train_batch_size=64 data.max_prompt_length=1024 \\
    data.max_response_length=1024 actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 trainer.n_gpus_per_node=8 trainer.save_freq=20
"""
TRAINER = """class RayPPOTrainer:
    def fit(self):
        self.actor_rollout_wg.save_checkpoint(self.config.trainer.default_local_dir)
"""
WHOLE = """
        cfg = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
        with FSDP.state_dict_type(self.{name}_module, StateDictType.FULL_STATE_DICT, cfg):
            state_dict = self.{name}_module.state_dict()
        if self.rank == 0:
            self.{name}_module.save_pretrained(local_path, state_dict=state_dict)
            self.tokenizer.save_pretrained(local_path)
"""
MANAGED = """
        self.checkpoint_manager.save_checkpoint(local_path=local_path, global_step=global_step)
"""
BESIDE = WHOLE + "        torch.save(self.{name}_optimizer.state_dict(), local_path)\n"
WORKER = """class {worker}(Worker):
    def save_checkpoint(self, local_path, hdfs_path=None):{body}

    def load_checkpoint(self, path):
        self.checkpoint_manager.load_checkpoint(path=path)


"""
ACTOR_VALUES, CRITIC_VALUES = (
    7_615_616_512,
    3_085_938_688,
)  # values of the models; the critic has a head of one
WEIGHT, STATES = 4, 12  # bytes of a value: its weight, and with both moments


def written(folder: Path, actor: str, critic: str) -> int:
    for name in (".git", "verl/trainer/ppo", "verl/workers"):
        (folder / name).mkdir(parents=True)
    (folder / "verl/trainer/main_ppo.py").write_text(
        "from verl.trainer.ppo.ray_trainer import RayPPOTrainer\n"
    )
    (folder / "verl/trainer/ppo/ray_trainer.py").write_text(TRAINER)
    (folder / "verl/workers/fsdp_workers.py").write_text(
        WORKER.format(worker="ActorRolloutRefWorker", body=actor.format(name="actor"))
        + WORKER.format(worker="CriticWorker", body=critic.format(name="critic"))
    )
    (folder / "run.sh").write_text(LAUNCH)
    options = ("--gpu", "h100-sxm", "--verl-version", "0.3.0.post1", "-f", "json")
    return int(json.loads(run("advise", str(folder / "run.sh"), *options).out)["saving"]["written_bytes"])


@pytest.mark.parametrize(
    ("actor", "critic", "values"),
    [
        (WHOLE, WHOLE, (WEIGHT, WEIGHT)),
        (WHOLE, MANAGED, (WEIGHT, STATES)),
        (MANAGED, MANAGED, (STATES, STATES)),
        (BESIDE, WHOLE, (STATES, WEIGHT)),
    ],
    ids=["the models alone", "the actor alone", "what ranks hold", "an optimizer beside it"],
)
def test_bytes_are_those_that_the_workers_write(
    tmp_path: Path, actor: str, critic: str, values: tuple[int, int]
) -> None:
    expected = ACTOR_VALUES * values[0] + CRITIC_VALUES * values[1]
    assert written(tmp_path, actor, critic) == pytest.approx(expected, rel=1e-3)


def test_search_r1_writes_the_model_alone() -> None:
    launch = (
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 "
        "data.max_start_length=1024 data.max_obs_length=500 max_turns=2 do_search=true "
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm "
        "actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size=64 "
        "trainer.n_gpus_per_node=8 trainer.save_freq=100"
    )
    saving = json.loads(run("advise", *launch.split(), "--gpu", "h100-sxm", "-f", "json").out)["saving"]
    assert saving["written_bytes"] == pytest.approx(ACTOR_VALUES * WEIGHT, rel=1e-3)


@pytest.mark.parametrize("reads", [True, False])
def test_adapters_alone_are_written_where_the_copy_reads_the_key(tmp_path: Path, reads: bool) -> None:
    words = "actor_rollout_ref.model.lora_rank=32 +actor_rollout_ref.actor.checkpoint.save_lora_only=True"
    for name in (".git", "verl/trainer/ppo", "verl/utils/checkpoint"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "verl/trainer/main_ppo.py").write_text("from verl.trainer.ppo import ray_trainer\n")
    (tmp_path / "verl/trainer/ppo/ray_trainer.py").write_text(TRAINER)
    (tmp_path / "verl/utils/checkpoint/fsdp_checkpoint_manager.py").write_text(
        "class FSDPCheckpointManager:\n    def save_checkpoint(self, local_path):\n"
        + ("        if self.config.save_lora_only:\n" if reads else "        if True:\n")
        + "            model_state_dict = {k: v for k, v in model_state_dict.items() if 'lora_' in k}\n"
        "        torch.save(model_state_dict, local_path)\n"
    )
    (tmp_path / "run.sh").write_text(LAUNCH.replace("gae", "grpo").rstrip() + f" {words}\n")
    options = ("--gpu", "h100-sxm", "--verl-version", "0.5.0", "-f", "json")
    saving = json.loads(run("advise", str(tmp_path / "run.sh"), *options).out)["saving"]
    assert (saving["written_bytes"] < ACTOR_VALUES * WEIGHT / 4) is reads
