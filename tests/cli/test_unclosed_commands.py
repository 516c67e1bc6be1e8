"""A launch in a loop that the script never closes: bash does not run it, and the answer says so."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

PPO = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True trainer.n_gpus_per_node=4"
)


def said(folder: Path, script: str) -> list[tuple[str, int]]:
    """What is said of a launch that bash does not run, with the line."""
    file = folder / "run.sh"
    file.write_text(script)
    result = run("advise", str(file), "-f", "json", "--verl-version", "0.4.1", "--gpu", "h100-sxm")
    assert result.code == 0, result.err
    remarks = json.loads(result.out)["premises"]["not_followed"]
    return [
        (remark["text"], remark["location"]["line"])
        for remark in remarks
        if remark["text"].startswith("bash does not run the launch")
    ]


@pytest.mark.parametrize(
    ("script", "line", "end"),
    [
        (f"set -x\nfor a in 1; do\nfor b in 3; do\n{PPO} data.seed=$a\ndone\ndon", 2, "done"),
        (f"N=4\nfor a in 1\ndo\n{PPO}\n", 2, "done"),
        (f"if true; then\n{PPO}\n", 1, "fi"),
    ],
)
def test_a_launch_in_a_command_without_an_end_is_not_run(
    script: str, line: int, end: str, tmp_path: Path
) -> None:
    ((text, place),) = said(tmp_path, script)
    assert f"has no {end}," in text
    assert place == line
    told = run("advise", str(tmp_path / "run.sh"), "--verl-version", "0.4.1", "--gpu", "h100-sxm").out
    assert "bash does not run the launch" in " ".join(told.split())


@pytest.mark.parametrize(
    "script",
    [
        f"for a in 1; do\n{PPO}\ndone\n",
        f"{PPO}\nfor a in 1; do\necho\n",  # it runs before bash comes to the end
        f"for a in 1; do\n{PPO}\ndone\necho $((2#101)) ${{x@Q}} <(( \n",  # wrong by something else
        f'F=${{F:-["/x"]}}\nfor a in 1; do\n{PPO}\ndone\n',  # bash takes it, and the grammar does not
    ],
)
def test_what_is_wrong_otherwise_or_runs_before_is_not_said_to_be_unclosed(
    script: str, tmp_path: Path
) -> None:
    assert not said(tmp_path, script)
