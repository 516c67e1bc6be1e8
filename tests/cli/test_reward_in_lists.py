"""A reward function that takes lists of responses is given no manager that calls it with one at a time."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo trainer.n_gpus_per_node=8 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True reward_model.reward_manager=batch "
    "custom_reward_function.path=rewards/own.py custom_reward_function.name=score\n"
)


@pytest.mark.parametrize(
    ("arguments", "proposed"),
    [
        ("data_sources, solution_strs, ground_truths", False),
        ("data_source, solution_str, ground_truth", True),
    ],
)
def test_naive_is_proposed_for_a_function_of_one_response(
    arguments: str, proposed: bool, tmp_path: Path
) -> None:
    for name in (".git", "rewards", "scripts"):
        (tmp_path / name).mkdir()
    (tmp_path / "rewards" / "own.py").write_text(f"def score({arguments}, extra_infos=None):\n    return 0\n")
    script = tmp_path / "scripts" / "run.sh"
    script.write_text(LAUNCH)
    answer = run("check", str(script), "--gpu", "h100-sxm", "--verl-version", "0.7.1", "-f", "json")
    (finding,) = (it for it in json.loads(answer.out)["findings"] if it["code"] == "CFG194")
    assert finding["overrides"] == (["reward_model.reward_manager=naive"] if proposed else [])
    assert any("takes lists" in note for note in finding["notes"]) is not proposed
