"""A reward model that a worker of a copy's own runs is left out by name, and is no input error."""

import json
from pathlib import Path

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True trainer.n_gpus_per_node=8 reward_model.enable=True \\
    reward_model.model.path=Qwen/Qwen2.5-7B-Instruct reward_model.strategy=referee"""
KNOWS = """class TaskRunner:
    def add_reward_model_worker(self, config):
        if config.reward_model.strategy in {"fsdp", "fsdp2"}:
            from verl.workers.fsdp_workers import RewardModelWorker
"""
REFEREE = """        elif config.reward_model.strategy == "referee":
            from verl.workers.referee import RewardModelWorker
"""


ROOMY = " actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.rollout.enforce_eager=True"


def asked(tmp_path: Path, code: str, more: str = "") -> tuple[int, str, str]:
    (tmp_path / ".git").mkdir()
    (tmp_path / "verl" / "trainer").mkdir(parents=True)
    (tmp_path / "verl" / "trainer" / "main_ppo.py").write_text(code)
    (tmp_path / "run.sh").write_text(LAUNCH + more)
    given = ("--gpu", "h100-sxm", "--verl-version", "0.6.1", "-f", "json")
    answer = run("advise", str(tmp_path / "run.sh"), *given)
    return answer.code, answer.out, answer.err


def test_a_strategy_that_the_copys_program_knows_is_left_out(tmp_path: Path) -> None:
    code, out, err = asked(tmp_path, KNOWS + REFEREE)
    assert code == 0, err
    named = [item for item in json.loads(out)["left_out"] if item["key"] == "reward_model.strategy"]
    assert [item["value"] for item in named] == ["referee"]


def test_nothing_that_grows_is_to_be_pasted_beside_it(tmp_path: Path) -> None:
    _code, out, _err = asked(tmp_path, KNOWS + REFEREE, ROOMY)
    report = json.loads(out)
    assert report["verdict"] == "may_not_fit"
    assert report["combination"] is None, "how much room is left is not known"


def test_one_that_nothing_there_knows_is_refused(tmp_path: Path) -> None:
    code, _out, err = asked(tmp_path, KNOWS)
    assert code == 2 and "'referee'" in err
