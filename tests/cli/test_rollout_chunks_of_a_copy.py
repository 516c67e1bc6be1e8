"""A copy's rollout that hands its engine a part of the sequences at a time is read from its code."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\
    data.max_prompt_length=2048 data.max_response_length=8192 actor_rollout_ref.rollout.n=8 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=sglang \\
    actor_rollout_ref.rollout.mode=sync actor_rollout_ref.rollout.gpu_memory_utilization=0.3 \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 actor_rollout_ref.rollout.multi_turn.enable=True \\
    data.return_raw_chat=True \\
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.model.use_remove_padding=True \\
    actor_rollout_ref.actor.fsdp_config.param_offload=True trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=True"""
ENGINE = """class SGLangRollout:
    def _init_inference_engine(self):
        self._engine = AsyncEngine(mem_fraction_static=self.config.gpu_memory_utilization)
"""
ROLLOUT = """
    def _req_level_generate_sequences(self, prompts):
        requests, loop = self._requests(prompts), asyncio.get_event_loop()
        {size}
        for i in range(0, len(requests), size):
            part = requests[i : i + size]
            done.extend(loop.run_until_complete(asyncio.gather(*[self._rollout(it) for it in part])))
"""
BY_KEY = 'size = self.config.multi_turn.get("part_size", 8)'


def advice(repository: Path, size: str, more: str = "") -> dict[str, Any]:
    for name in (".git", "verl/trainer/ppo", "verl/workers/rollout/sglang_rollout"):
        (repository / name).mkdir(parents=True, exist_ok=True)
    (repository / "verl" / "trainer" / "main_ppo.py").write_text("config.ref.fsdp_config.param_offload\n")
    file = repository / "verl" / "workers" / "rollout" / "sglang_rollout" / "sglang_rollout.py"
    file.write_text(ENGINE + (ROLLOUT.format(size=size) if size else ""))
    (repository / "run.sh").write_text(f"{LAUNCH} {more}")
    options = ("--gpu", "h100-sxm", "--verl-version", "0.6.1", "--mean-response-length", "6000")
    answer = run("advise", str(repository / "run.sh"), *options, "-f", "json")
    assert answer.code == 0, answer.err
    loaded: dict[str, Any] = json.loads(answer.out)
    return loaded


def asks_for_cache(answer: dict[str, Any]) -> bool:
    return "ROL001" in {finding["code"] for finding in answer["findings"]}


def seconds(answer: dict[str, Any]) -> float:
    return float(sum(phase["seconds"] for phase in answer["time"]))


@pytest.mark.parametrize("size", ["size = 8", BY_KEY, "size = self.config.multi_turn.part_size"])
def test_more_cache_is_not_proposed_for_sequences_that_come_a_few_at_a_time(
    size: str, tmp_path: Path
) -> None:
    assert not asks_for_cache(advice(tmp_path, size))


def test_an_engine_that_gets_all_sequences_is_given_cache(tmp_path: Path) -> None:
    assert asks_for_cache(advice(tmp_path, ""))


def test_the_loop_of_turns_says_nothing_of_a_job_without_turns(tmp_path: Path) -> None:
    off = "actor_rollout_ref.rollout.multi_turn.enable=False"
    assert seconds(advice(tmp_path, "size = 8", off)) == seconds(advice(tmp_path, "", off))


def test_the_rollout_of_a_few_at_a_time_takes_longer(tmp_path: Path) -> None:
    few, more = advice(tmp_path, BY_KEY), "+actor_rollout_ref.rollout.multi_turn.part_size=64"
    assert seconds(advice(tmp_path, "")) < seconds(advice(tmp_path, BY_KEY, more)) < seconds(few)
