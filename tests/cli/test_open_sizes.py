"""A length that only a run of the script tells decides whether the job fits: the verdict says up to which."""

from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B actor_rollout_ref.rollout.n=4 "
    "actor_rollout_ref.model.enable_gradient_checkpointing=False data.train_batch_size=64 "
    "actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 "
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=4 "
    "data.max_prompt_length=256"
)


@pytest.mark.parametrize(
    ("length", "verdict", "limit"),
    [
        ('$(python -c "print(2048)")', "MAY NOT FIT", "fits up to"),  # 512 is the default
        ("512", "FITS", ""),
    ],
)
def test_an_open_length_is_a_condition_of_the_verdict(
    length: str, verdict: str, limit: str, tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(f"N={length}\n{LAUNCH} data.max_response_length=$N\n")
    result = run("advise", str(tmp_path / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.8.0")
    headline = " ".join(result.out.partition("\n  ")[0].split())
    assert headline.startswith(verdict)
    assert limit in headline
    if limit:
        assert "data.max_response_length=512 is taken" in headline
        assert "Paste this: FITS" not in result.out


def test_an_open_name_or_a_length_far_from_what_fits_is_none(tmp_path: Path) -> None:
    recomputes = LAUNCH.replace("checkpointing=False", "checkpointing=True")
    script = f"{recomputes} data.max_response_length=$(date +%N) trainer.experiment_name=$(date +%s)\n"
    (tmp_path / "run.sh").write_text(script)
    result = run("advise", str(tmp_path / "run.sh"), "--gpu", "h200-sxm", "--verl-version", "0.8.0")
    assert result.out.startswith("FITS")
