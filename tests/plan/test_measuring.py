"""Settings that tie are told with the commands that measure them, which work as they are printed."""

import json
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run
from tuner.cli import validation
from tuner.consultation.consult import consult

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
JOB = (
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=128",
    "data.max_response_length=1536",
    f"{ACTOR}.ppo_mini_batch_size=64",
    f"{ACTOR}.use_dynamic_bsz=True",
    f"{ROLLOUT}.name=vllm",
    f"{ROLLOUT}.log_prob_use_dynamic_bsz=True",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B",
)
#: A step waits for generation, whichever way the trainer's two GPUs share a sequence.
APART = (
    *("trainer.n_gpus_per_node=2", "rollout.nnodes=1", "rollout.n_gpus_per_node=2"),
    *("actor_rollout_ref.hybrid_engine=False", f"{ROLLOUT}.n=8"),
)
OPTIONS = ("--gpu", "2xh100-sxm", "--verl-version", "0.9.1", "--mean-response-length", "900")
PASTED = ("python3", "-m", "verl.experimental.one_step_off_policy.main_ppo")


@cache
def planned(*words: str) -> dict[str, Any]:
    result = run("plan", *OPTIONS, "--gpus-per-node", "2", "--output-format", "json", *words)
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)
    return answer


class _AskedError(Exception):
    pass


@pytest.mark.parametrize("source", [("/dev/null", "--"), PASTED])
def test_each_command_is_taken_and_is_about_the_setting(
    source: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = planned(*source, *JOB, *APART)
    asked: list[validation.Request] = []

    def on_all_nodes(request: validation.Request, _ray: str | None) -> tuple[()]:
        asked.append(request)
        return ()

    monkeypatch.setattr(validation, "on_all_nodes", on_all_nodes)
    tied = [setting for setting in answer["plan"]["settings"] if setting["rank"] == 1]
    assert len(tied) >= 2
    assert 2 <= len(answer["measure"]) <= 3
    seconds = [setting["seconds"] for setting in tied]
    for command in answer["measure"]:
        tuner, name, *words = shlex.split(command)
        result = run(name, *words)
        assert (tuner, result.code, result.err) == ("tuner", 0, "")
        request = asked.pop()
        time = consult(request.config, request.overrides, request.premises).advice.time
        assert any(time.seconds == pytest.approx(one, rel=1e-9) for one in seconds)
    assert shlex.split(answer["measure"][0])[2:8] == [
        *("--verl-version", "0.9.1", "--gpu", "2xh100-sxm", "--gpus-per-node", "2")
    ]


def test_they_stand_below_the_settings() -> None:
    result = run("plan", *OPTIONS, "--gpus-per-node", "2", *PASTED, *JOB, *APART)
    lines = result.out.splitlines()
    (told,) = (place for place, line in enumerate(lines) if line.startswith("On a machine with such GPUs"))
    assert lines[told + 1] == planned(*PASTED, *JOB, *APART)["measure"][0]
    assert next(line for line in lines[told:] if line.startswith("Fewest GPUs"))


def test_without_a_tie_nothing_is_to_be_measured() -> None:
    answer = planned("/dev/null", "--", *JOB, f"{ROLLOUT}.n=1", "data.max_prompt_length=8192")
    ranks = [setting["rank"] for setting in answer["plan"]["settings"]]
    assert (ranks.count(1) == 1) == (answer["measure"] == [])


def test_what_a_project_says_is_not_said_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tuner.toml").write_text('verl-version = "0.9.1"\n')
    monkeypatch.chdir(tmp_path)
    options = ("--gpu", "2xh100-sxm", "--gpus-per-node", "2", "--output-format", "json")
    answer = json.loads(run("plan", *options, *PASTED, *JOB, *APART).out)
    assert answer["measure"]
    assert all("--verl-version" not in command for command in answer["measure"])
