"""A copy's own training loop, by a key: nothing rests on when releases put the engine to sleep."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import CONFIGS, read_defaults

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True data.max_response_length=8192 \\
    actor_rollout_ref.rollout.n=8 \\
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384 \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 trainer.n_gpus_per_node=4 """
READS = """config.rollout.free_cache_engine
config.rollout.gpu_memory_utilization
config.rollout.max_num_seqs
"""
AWAKE = "actor_rollout_ref.rollout.free_cache_engine=False "
LOOP = """class RayPPOTrainer:
    def fit(self):
        tree = self.config.algorithm.get("tree_search", {})
        if bool(tree.get("enable", False)):
            from verl.trainer.ppo.tree_search import run_tree_search

            return run_tree_search(self)
        for batch in self.train_dataloader:
            self.actor_rollout_wg.generate_sequences(batch)
            self.checkpoint_manager.sleep_replicas()
"""


def advised(tmp_path: Path, words: str, release: str = "0.8.0") -> dict[str, Any]:
    config = tmp_path / "verl" / "trainer" / "config"
    for folder in (tmp_path / ".git", config, tmp_path / "verl" / "trainer" / "ppo"):
        folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / "verl" / "trainer" / "main_ppo.py").write_text(READS)
    (tmp_path / "verl" / "trainer" / "ppo" / "ray_trainer.py").write_text(LOOP)
    own = yaml.safe_dump(dict(read_defaults(release, CONFIGS[0]).tree))
    (config / "ppo_trainer.yaml").write_text(own)
    (tmp_path / "run.sh").write_text(LAUNCH + words)
    given = ("--gpu", "h100-sxm", "--verl-version", release, "-f", "json")
    answer = run("advise", str(tmp_path / "run.sh"), *given)
    assert answer.out, answer.err
    loaded: dict[str, Any] = json.loads(answer.out)
    return loaded


def codes(answer: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in answer["findings"]}


@pytest.mark.parametrize(("switch", "proposed"), [("True", False), ("False", True)])
def test_an_engine_that_its_own_loop_keeps_awake_is_not_put_to_sleep(
    tmp_path: Path, switch: str, proposed: bool
) -> None:
    answer = advised(tmp_path, f"{AWAKE}+algorithm.tree_search.enable={switch}")
    assert ("ROL015" in codes(answer)) is proposed
    named = [item["affects"] for item in answer["left_out"] if item["key"] == "algorithm.tree_search.enable"]
    assert bool(named) is not proposed


def test_an_engine_that_may_stay_awake_beside_the_trainer_gets_no_larger_share(tmp_path: Path) -> None:
    share = "actor_rollout_ref.rollout.gpu_memory_utilization=0.3 data.max_response_length=4096 "
    usual = advised(tmp_path, share + "+algorithm.tree_search.enable=False")
    assert "ROL001" in codes(usual)
    own = advised(tmp_path, share + "+algorithm.tree_search.enable=True")
    assert "ROL001" not in codes(own)
