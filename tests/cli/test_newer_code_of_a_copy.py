"""Code of a copy of verl decides what it does: of a later release than its number says, or of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 \\
    data.max_prompt_length=1024 data.max_response_length=1024 actor_rollout_ref.rollout.n=4 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 actor_rollout_ref.actor.entropy_coeff=0 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.rollout.free_cache_engine=False"""
ENGINE = """class vLLMRollout:
    def __init__(self, config):
        self.inference_engine = LLM(enable_sleep_mode={asleep}, enforce_eager=config.enforce_eager)
"""
ALWAYS = """class DataParallelPPOActor:
    def update_policy(self, data):
        entropy, log_prob = self._forward_micro_batch(micro_batch=data)
        loss = log_prob - entropy * self.config.entropy_coeff
"""
ON_DEMAND = """class DataParallelPPOActor:
    def update_policy(self, data):
        calculate_entropy = False
        if self.config.entropy_coeff != 0:
            calculate_entropy = True
        entropy, log_prob = self._forward_micro_batch(micro_batch=data, calculate_entropy=calculate_entropy)
"""


def workload(repository: Path, release: str, *, asleep: str = "True", actor: str = ALWAYS) -> dict[str, Any]:
    for name in (".git", "verl/trainer", "verl/workers/actor", "verl/workers/rollout/vllm_rollout"):
        (repository / name).mkdir(parents=True)
    (repository / "verl/trainer/main_ppo.py").write_text("VALUE = 1\n")
    (repository / "verl/workers/actor/dp_actor.py").write_text(actor)
    rollout = repository / "verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py"
    rollout.write_text(ENGINE.format(asleep=asleep))
    (repository / "run.sh").write_text(LAUNCH)
    script = str(repository / "run.sh")
    answer = run("advise", script, "--gpu", "h100-sxm", "--verl-version", release, "-f", "json")
    read: dict[str, Any] = json.loads(answer.out)["workload"]
    return read


@pytest.mark.parametrize(("asleep", "frees"), [("True", True), ("config.free_cache_engine", False)])
def test_an_engine_told_whether_to_sleep_is_one_that_may_not(
    tmp_path: Path, asleep: str, frees: bool
) -> None:
    assert workload(tmp_path, "0.4.1", asleep=asleep)["rollout"]["frees_memory"] is frees


@pytest.mark.parametrize(("actor", "taken"), [(ALWAYS, True), (ON_DEMAND, False)])
def test_entropy_on_demand_is_taken_only_where_a_coefficient_asks(
    tmp_path: Path, actor: str, taken: bool
) -> None:
    assert workload(tmp_path, "0.3.0.post1", actor=actor)["actor"]["update"]["entropy"] is taken


PROGRAM = """from verl.utils import hf_processor
def run(config):
    processor = hf_processor("path", **config.actor_rollout_ref.get("processor_kwargs", {}))
"""
LOADER = """class RLHFDataset:
    def __getitem__(self, item):
        images = [process_image(it, max_pixels=self.processor.image_processor.max_pixels) for it in item]
"""


@pytest.mark.parametrize(("program", "bounded"), [("VALUE = 1\n", False), (PROGRAM, True)])
def test_images_are_no_larger_than_a_copys_processor_is_told(
    tmp_path: Path, program: str, bounded: bool
) -> None:
    for name in (".git", "verl/trainer", "verl/utils/dataset"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "verl/trainer/main_ppo.py").write_text(program)
    (tmp_path / "verl/utils/dataset/rl_dataset.py").write_text(LOADER)
    seeing = LAUNCH.replace("Qwen2.5-7B", "Qwen2.5-VL-7B").replace(
        "max_prompt_length=1024", "max_prompt_length=4096"
    )
    more = " data.image_key=images +actor_rollout_ref.processor_kwargs.max_pixels=401408"
    (tmp_path / "run.sh").write_text(seeing + more)
    script = str(tmp_path / "run.sh")
    answer = run("advise", script, "--gpu", "h100-sxm", "--verl-version", "0.4.0", "-f", "json")
    images = json.loads(answer.out)["workload"]["batch"]["images"]
    assert (images["most_tokens"] == 512) is bounded
