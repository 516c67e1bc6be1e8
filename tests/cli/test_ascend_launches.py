"""A launch for Ascend's cards: what is installed for GPUs says nothing of it, nor is its card one."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.rollout.n=4 actor_rollout_ref.actor.ppo_mini_batch_size=64 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8"
)
BY_DEVICE, BY_VARIABLE = f"{LAUNCH} trainer.device=npu", f"export ASCEND_LAUNCH_BLOCKING=0\n{LAUNCH}"


def premises(folder: Path, launch: str) -> dict[str, Any]:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "install_cuda.sh").write_text("pip install vllm==0.10.2\n")
    (folder / "run.sh").write_text(launch)
    told = run("advise", str(folder / "run.sh"), "--verl-version", "0.7.1", "-f", "json").out
    stated: dict[str, Any] = json.loads(told)["premises"]
    return stated


BY_ALLOCATOR = f"export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True\n{LAUNCH}"
BY_COLLECTIVES = f"export HCCL_CONNECT_TIMEOUT=1800\n{LAUNCH}"


@pytest.mark.parametrize("launch", [BY_DEVICE, BY_VARIABLE, BY_ALLOCATOR, BY_COLLECTIVES])
def test_no_pin_of_gpus_is_taken(launch: str, tmp_path: Path) -> None:
    stated = premises(tmp_path, launch)
    assert stated["gpu_reason"] == "a card for which the launch is written"
    assert stated["engine"] != "vLLM 0.10.2"
    (tmp_path / "install_npu.sh").write_text("pip install vllm==0.11.0 vllm-ascend==0.11.0\n")
    assert premises(tmp_path, launch)["engine"] == "vLLM 0.11.0"


@pytest.mark.parametrize(
    ("beside", "taken"),
    [("| vLLM-ascend | 0.11.0rc1 |", True), ("pip install torch_npu==2.7.1", True), ("CANN 8.5.0", False)],
)
def test_a_readme_that_lists_packages_of_such_cards_tells_the_engine(
    beside: str, taken: bool, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text(f"| Package | Version |\n|---|---|\n| vLLM | 0.11.0 |\n{beside}\n")
    assert (premises(tmp_path, BY_DEVICE)["engine"] == "vLLM 0.11.0") is taken


@pytest.mark.parametrize("launch", [LAUNCH, f"export CUDA_VISIBLE_DEVICES=0,1\n{BY_VARIABLE}"])
def test_a_launch_for_gpus_takes_them_as_before(launch: str, tmp_path: Path) -> None:
    stated = premises(tmp_path, launch)
    assert stated["gpu_reason"] == "assumed" and stated["engine"] == "vLLM 0.10.2"


def test_of_a_device_that_no_profile_knows_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"{LAUNCH} trainer.device=xpu")
    words = ("advise", str(tmp_path / "run.sh"), "--verl-version", "0.7.0")
    text = " ".join(run(*words).out.split())
    assert text.startswith("CANNOT SAY") and "Paste this: FITS" not in text
    assert "the launch is for the device xpu, of which no card is known" in text
    assert run(*words, "--gpu", "h100-sxm").out.startswith("FITS")
