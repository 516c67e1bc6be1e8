"""What decides in a copy of verl is parsed once, however often a job in it is read back."""

import ast
import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path

from tuner.advise.reading import Reading
from tuner.consultation.consult import job_of
from tuner.consultation.premises import Premises

ENTRY = "from verl.trainer.ppo.own_trainer import OwnTrainer\n\n\ndef main():\n    OwnTrainer().fit()\n"
TRAINER = """class OwnTrainer:
    def fit(self):
        for batch in self.loader:
            batch = batch.repeat(repeat_times=self.config.agent.n, interleave=True)
"""
ENGINES = """from enum import Enum


class AdvantageEstimator(str, Enum):
    GRPO = "grpo"
    OWN = "own"
"""
LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo +agent.n=4 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True data.train_batch_size=32 trainer.n_gpus_per_node=8
"""


def job_in_a_copy(folder: Path) -> Reading:
    for name in (".git", "verl/trainer/ppo", "verl/workers"):
        (folder / name).mkdir(parents=True)
    (folder / "verl/trainer/main_ppo.py").write_text(ENTRY)
    (folder / "verl/trainer/ppo/own_trainer.py").write_text(TRAINER)
    (folder / "verl/trainer/ppo/ray_trainer.py").write_text(TRAINER.replace("Own", "RayPPO"))
    (folder / "verl/trainer/ppo/core_algos.py").write_text(ENGINES)
    (folder / "run.sh").write_text(LAUNCH)
    read, _ = job_of(str(folder / "run.sh"), (), Premises(gpu="h100-sxm", verl_version="0.5.0"))
    return read.reading


def parsings(work: Callable[[], object]) -> int:
    """How many files, or pieces of code, are parsed meanwhile."""
    profile = cProfile.Profile()
    profile.runcall(work)
    calls = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    named = ((name, number) for (file, _, name), (_, number, *_) in calls.items() if file == ast.__file__)
    return sum(number for name, number in named if name == "parse")


def test_a_job_that_is_read_back_parses_no_file_of_its_copy_again(tmp_path: Path) -> None:
    reading = job_in_a_copy(tmp_path)

    def read_back(tokens: int) -> None:
        after = reading.adding((f"actor_rollout_ref.actor.ppo_max_token_len_per_gpu={tokens}",))
        assert after.workload != reading.workload and after.findings

    read_back(20_000)
    assert parsings(lambda: [read_back(tokens) for tokens in (24_000, 28_000)]) == 0
