"""A script may change a model's configuration before it trains: the published one refuses nothing then."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

LAUNCH = """model_path=Qwen/Qwen2.5-14B-Instruct
{before}
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 \\
    data.max_prompt_length=120000 data.max_response_length=4000 actor_rollout_ref.rollout.n=4 \\
    actor_rollout_ref.model.path=$model_path actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    trainer.n_gpus_per_node=8
"""
EXTENDS = (
    'config["rope_scaling"] = {"factor": 4.0, "type": "yarn"}\njson.dump(config, open("config.json", "w"))\n'
)


def finding(folder: Path, before: str) -> dict[str, Any]:
    script = folder / "run.sh"
    script.write_text(LAUNCH.format(before=before))
    answer = run("advise", str(script), "--gpu", "h200-sxm", "--verl-version", "0.4.1", "-f", "json")
    (found,) = (one for one in json.loads(answer.out)["findings"] if one["code"] == "CFG120")
    loaded: dict[str, Any] = found
    return loaded


@pytest.mark.parametrize("before", ["", "python3 show.py $model_path", "python3 extend.py other/model"])
def test_a_model_as_it_is_published_refuses(tmp_path: Path, before: str) -> None:
    (tmp_path / "show.py").write_text("print(1)\n")
    (tmp_path / "extend.py").write_text(EXTENDS)
    assert finding(tmp_path, before)["severity"] == "error"


@pytest.mark.parametrize("option", ["--model_path=$model_path", "--model_path $model_path", "$model_path"])
@pytest.mark.parametrize("is_here", [True, False])
def test_a_model_that_may_be_another_by_then_is_a_warning(tmp_path: Path, option: str, is_here: bool) -> None:
    if is_here:
        (tmp_path / "extend.py").write_text(EXTENDS)
    found = finding(tmp_path, f"python3 extend.py {option}")
    assert found["severity"] == "warning"
    assert found["message"].endswith(
        "unless extend.py, which gets the model's path before, changes its config.json"
    )
    assert not found["overrides"]


@pytest.mark.parametrize(
    ("value", "severity"),
    [('{"rope_scaling":{"rope_type":"yarn","factor":4.0}}', "warning"), ("4.0", "error")],
)
def test_a_variable_that_has_a_rope_scaling_may_reach_the_model(
    tmp_path: Path, value: str, severity: str
) -> None:
    found = finding(tmp_path, f"export OWN_ROPE='{value}'")
    assert found["severity"] == severity
    assert ("OWN_ROPE" in found["message"]) is (severity == "warning")


def test_prompts_longer_than_all_positions_ask_for_more_positions_once(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    launch = LAUNCH.format(before="").replace("120000", "40000").rstrip()
    script.write_text(f"{launch} actor_rollout_ref.rollout.max_model_len=44000\n")
    answer = run("advise", str(script), "--gpu", "h200-sxm", "--verl-version", "0.7.1", "-f", "json")
    told = [one for one in json.loads(answer.out)["findings"] if one["code"] in ("CFG120", "CFG156")]
    (only,) = told
    assert only["overrides"] == ["+actor_rollout_ref.model.override_config.max_position_embeddings=44000"]
