"""What pages show of the program runs in the build's own process, and is what a process of its own prints."""

import os

import pytest

import run_command
from docs.tools.program import ROOT, run, run_here
from run_command import numbers_of_plan, ran
from tuner import language

PLAN = (
    "tuner plan /dev/null algorithm.adv_estimator=grpo data.train_batch_size=64 "
    "data.max_response_length=512 actor_rollout_ref.actor.ppo_mini_batch_size=32 "
    "actor_rollout_ref.actor.use_dynamic_bsz=True "
    "--model qwen2.5-0.5b --verl-version 0.9.1 --gpu 2xh100-sxm --gpus-per-node 2"
)


@pytest.mark.parametrize(
    "command",
    [
        "tuner --lang zh check docs/examples/run-grpo.sh --gpu h100-sxm --verl-version 0.9.1",
        "tuner estimate-memory --vocab nothing",
    ],
)
def test_it_prints_what_a_process_of_its_own_does(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = run(command, columns=70)
    monkeypatch.chdir(ROOT / "docs")
    assert run_here(command, columns=70) == (alone.returncode, alone.stdout)
    assert alone.stdout and alone.returncode in (1, 2)
    assert (os.getcwd(), language.chosen()) == (str(ROOT / "docs"), "en")  # noqa: PTH109


def test_what_is_no_command_of_the_program_is_not_run() -> None:
    with pytest.raises(ValueError, match="only tuner is run"):
        run_here("rm -r docs", columns=70)


@pytest.mark.sampled(6)
def test_a_plan_that_two_formats_show_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(*given: object, **options: object) -> object:
        made.append(given)
        return planned(*given, **options)

    planned = run_command._plan_answer
    monkeypatch.setattr(run_command, "_plan_answer", counted)
    monkeypatch.setattr(run_command, "_planned", {})
    status, printed = ran(PLAN)
    numbers = numbers_of_plan(PLAN)
    assert status == 0 and "2 x h100-sxm" in printed
    assert numbers["plan"]["settings"]
    assert len(made) == 1
