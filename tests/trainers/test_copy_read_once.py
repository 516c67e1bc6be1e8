"""What decides in a copy of verl is looked at once, however often a job in it is read back."""

import ast
import cProfile
import pstats
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tuner.advise.reading import Reading
from tuner.consultation.consult import job_of
from tuner.consultation.premises import Premises
from tuner.trainers import coverage
from tuner.trainers.verl.trainer_code import known_words

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


def calls(work: Callable[[], object]) -> Counter[tuple[str, str]]:
    """How often each function is called meanwhile, by its file and name."""
    profile = cProfile.Profile()
    profile.runcall(work)
    counted: Counter[tuple[str, str]] = Counter()
    for (file, _, name), (_, number, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        counted[file, name] += number
    return counted


def test_a_job_that_is_read_back_looks_at_no_file_of_its_copy_again(tmp_path: Path) -> None:
    reading = job_in_a_copy(tmp_path)

    def read_back(*budgets: int) -> None:
        for tokens in budgets:
            after = reading.adding((f"actor_rollout_ref.actor.ppo_max_token_len_per_gpu={tokens}",))
            assert after.workload != reading.workload and after.findings

    read_back(20_000)
    later = calls(lambda: read_back(24_000, 28_000))
    assert later[ast.__file__, "parse"] == 0  # files, or pieces of code
    assert later[coverage.__file__, "_covers"] == 0  # whether a row of tables names a key
    assert later[known_words.__file__, "registered"] == 0  # names in all of its files
