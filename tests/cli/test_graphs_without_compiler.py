"""CUDA graphs that vLLM makes by torch.compile where a script switches that off, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

ROLLOUT = "actor_rollout_ref.rollout"
LAUNCH = f"""python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=128 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct {ROLLOUT}.name=vllm trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 {ROLLOUT}.log_prob_micro_batch_size_per_gpu=4 \\
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 {ROLLOUT}.n=4 \\
    {ROLLOUT}.tensor_model_parallel_size=1 \\
    data.max_prompt_length=1024 data.max_response_length=2048 {ROLLOUT}.free_cache_engine=False \\
    {ROLLOUT}.enforce_eager={{eager}}
"""
OFF = "export TORCH_COMPILE_DISABLE=1\n"


def answered(folder: Path, front: str, engine: str = "0.8.5", *, eager: bool) -> dict[str, Any]:
    (folder / "run.sh").write_text(front + LAUNCH.format(eager=eager))
    options = ("--gpu", "h100-sxm", "--verl-version", "0.4.1", "--engine-version", engine, "-f", "json")
    report: dict[str, Any] = json.loads(run("advise", str(folder / "run.sh"), *options).out)
    return report


def codes(report: dict[str, Any]) -> set[str]:
    return {one["code"] for one in report["findings"]}


@pytest.mark.parametrize(
    ("front", "engine", "advised"),
    [
        (OFF, "0.8.5", False),
        ("export TORCHDYNAMO_DISABLE=1\n", "0.10.0", False),
        ("", "0.8.5", True),
        ("export TORCH_COMPILE_DISABLE=0\n", "0.8.5", True),
        (f"export VLLM_USE_V1=0\n{OFF}", "0.8.5", True),
        (OFF, "0.11.0", True),
        (OFF, "0.7.3", True),
    ],
)
def test_graphs_are_advised_where_they_can_be_captured(
    front: str, engine: str, advised: bool, tmp_path: Path
) -> None:
    assert ("ROL011" in codes(answered(tmp_path, front, engine, eager=True))) is advised


def test_a_job_that_asks_for_them_in_vain_takes_as_long_as_without(tmp_path: Path) -> None:
    def seconds(front: str, *, eager: bool) -> Any:
        return answered(tmp_path, front, eager=eager)["time"][0]["seconds"]

    assert seconds(OFF, eager=False) == seconds("", eager=True) > seconds("", eager=False)
