"""A rollout engine of which nothing names the version: what holds with some of them alone is said to."""

from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = (
    "export VLLM_ATTENTION_BACKEND=XFORMERS\n"
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.rollout.n=4 actor_rollout_ref.actor.ppo_mini_batch_size=64 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8\n"
)
NAMED = "Only with some versions of the engine: CFG197 debugging-variables (vLLM 0.8.2 or newer)"


def told(script: Path, *options: str, command: str = "advise") -> str:
    answer = run(command, str(script), "--gpu", "h100-sxm", "--verl-version", "0.4.0", *options)
    return " ".join(answer.out.split())


def test_what_an_older_engine_does_not_do_is_named_and_no_more(tmp_path: Path) -> None:
    """verl 0.4.0 runs with vLLM 0.7.3 as well, which has no newer core by default."""
    script = tmp_path / "run.sh"
    script.write_text(LAUNCH)
    short = told(script)
    assert f"{NAMED}: name the version with --engine-version." in short
    assert "falls back to its older core" not in short
    assert "Only if the release is vLLM 0.8.2 or newer: " in told(script, "--full")


@pytest.mark.parametrize("by", ["option", "file"])
def test_a_named_engine_leaves_no_other(by: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(LAUNCH if by == "option" else f"pip install vllm==0.8.5\n{LAUNCH}")
    short = told(script, *(("--engine-version", "0.8.5") if by == "option" else ()))
    assert "vLLM 0.8.5 falls back to its older core" in short
    assert "Only with some versions" not in short
