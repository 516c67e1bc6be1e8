"""Advice that moves states to a host is held against the memory that the host is known to have."""

from pathlib import Path

from tests.cli.runner import run

SCRIPT = """\
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    data.max_prompt_length=1024 data.max_response_length=1024 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.actor.ppo_mini_batch_size=128 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.4 \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \\
    trainer.n_gpus_per_node=2
"""
FITS = "then the expected peak fits"


def test_what_the_host_cannot_hold_makes_no_job_fit(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(SCRIPT)
    given = ("advise", str(file), "--gpu", "a100-sxm-40g", "--isolated", "--verl-version", "0.8.0")
    large, small = (" ".join(run(*given, "--host-memory", gib).out.split()) for gib in ("500", "100"))
    assert "optimizer-on-host" in large
    assert "optimizer-on-host" not in small
    assert FITS not in small
    full = " ".join(run(*given, "--host-memory", "100", "--full").out.split())
    assert "with it alone the job does not fit" in full[full.index("optimizer-on-host") :]
