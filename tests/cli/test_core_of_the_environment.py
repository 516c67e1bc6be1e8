"""Which of vLLM's two cores runs where the environment of a launch picks one, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct actor_rollout_ref.actor.use_dynamic_bsz=True "
    "actor_rollout_ref.rollout.enable_chunked_prefill=False\n"
)


def rollout_of(folder: Path, front: str, engine: str) -> dict[str, Any]:
    script = folder / "run.sh"
    script.write_text(f"{front}\n{LAUNCH}")
    options = ("--verl-version", "0.4.1", "--engine-version", engine, "--gpu", "h100-sxm", "-f", "json")
    rollout: dict[str, Any] = json.loads(run("advise", str(script), *options).out)["workload"]["rollout"]
    return rollout


@pytest.mark.parametrize(
    ("front", "engine", "older"),
    [
        ("export VLLM_USE_V1=0", "0.8.5", True),
        ("export VLLM_USE_V1=0", "0.9.1", True),
        ("export VLLM_ATTENTION_BACKEND=XFORMERS", "0.8.5", True),
        ("export VLLM_ATTENTION_BACKEND=FLASH_ATTN", "0.8.5", None),
        ("export VLLM_USE_V1=1", "0.8.5", False),
        ("", "0.8.5", None),
        ("export VLLM_USE_V1=0", "0.12.0", None),
    ],
)
def test_the_environment_picks_the_core(front: str, engine: str, older: bool | None, tmp_path: Path) -> None:
    """The newer core of 0.8 to 0.11.0 divides prompts whatever it is asked; the older one does not."""
    rollout = rollout_of(tmp_path, front, engine)
    assert rollout["chunked_prefill"] is (engine != "0.12.0" and older is not True)
    assert rollout["first_core"] is (older is True)
    assert (rollout["older_core"] is None) is (older is not None or engine != "0.8.5")
