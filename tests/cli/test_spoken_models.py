"""A model that is not to be had is asked for by the name that the README around a launch speaks of most."""

from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=ckpt/sft_stage_one\n"
)


@pytest.mark.parametrize(
    ("readme", "offered"),
    [
        (
            "# Tasks\n\nWe tune Qwen/Qwen2.5-7B-Instruct.\n",
            "README.md:3 speaks of one: --model Qwen2.5-7B-Instruct",
        ),
        (
            "Get Qwen3-4B.\nQwen3-4B, not Qwen2.5-7B-Instruct.\n",
            "README.md:1 speaks of one: --model Qwen3-4B",
        ),
        ("Qwen3-4B and Qwen3-8B are trained.\n", ""),
        ("The judge is Qwen3-8B.\n", ""),
    ],
)
def test_the_model_of_the_readme_is_offered(readme: str, offered: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(readme)
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "train.sh"
    script.write_text(LAUNCH)
    answer = run("advise", str(script), "--gpu", "h100-sxm")
    assert answer.code == 2
    assert "sft_stage_one" in answer.err
    assert offered in answer.err
    assert ("speaks of one" in answer.err) == bool(offered)
