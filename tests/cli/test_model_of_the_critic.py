"""``--model`` says what the critic's model is as well, where a launch gives both the same path."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = """BASE={base}
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae actor_rollout_ref.model.path=$BASE \\
    critic.model.path={critic} actor_rollout_ref.rollout.name=vllm trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True critic.use_dynamic_bsz=True
"""
OPTIONS = ("--gpu", "h100-sxm", "--verl-version", "0.4.1", "--model", "Qwen2.5-7B", "-f", "json")


@pytest.mark.parametrize("base", ["/data/own/checkpoint-100", '""'])
def test_one_option_names_both(tmp_path: Path, base: str) -> None:
    script = tmp_path / "run.sh"
    script.write_text(LAUNCH.format(base=base, critic="$BASE"))
    answer = run("advise", str(script), *OPTIONS)
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["workload"]["critic"]["model"]["name"] == "Qwen2.5-7B"


def test_another_path_is_asked_for(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(LAUNCH.format(base="/data/own/checkpoint-100", critic="/data/own/critic-100"))
    answer = run("advise", str(script), *OPTIONS)
    assert answer.code == 2 and "critic.model.path" in answer.err and "--critic-model" in answer.err
