"""The hours of a job whose steps are known stand in the short answer."""

import json
import re

import pytest

from tests.cli.runner import run

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.model.use_remove_padding=True",
    "trainer.n_gpus_per_node=8",
)
PREMISES = ("--gpu", "h100-sxm", "--verl-version", "0.7.1")


def words(*options: str) -> str:
    result = run("advise", "/dev/null", *JOB, *PREMISES, *options)
    assert result.code == 0, result.err
    return " ".join(result.out.split())


def test_the_hours_are_those_of_all_steps() -> None:
    report = json.loads(run("advise", "/dev/null", *JOB, *PREMISES, "-f", "json").out)
    before, after = report["step_time"]["seconds"], report["combination"]["step_time"]["seconds"]
    said = re.search(
        r"1,000 steps at most: ([\d.]+) h \([^)]*\), ([\d.]+) h \([^)]*\) with the block; modelled",
        words("trainer.total_training_steps=1000"),
    )
    assert said is not None
    for shown, seconds in ((said[1], before), (said[2], after)):  # in whole hours from ten on
        digit = 0.05 if "." in shown else 0.5
        assert float(shown) == pytest.approx(seconds * 1000 / 3600, abs=1.01 * digit)


@pytest.mark.parametrize(
    "options",
    [
        ("trainer.total_epochs=15",),
        ("trainer.total_training_steps=-1",),
        ("trainer.total_training_steps=1000", "trainer.val_only=True"),
    ],
    ids=["epochs of unknown data", "none", "no update"],
)
def test_no_hours_where_nobody_knows_the_steps(options: tuple[str, ...]) -> None:
    assert "at most:" not in words(*options)


def test_no_hours_of_a_few_steps() -> None:
    """The start, which the seconds leave out, is longer than they are."""
    assert "at most:" not in words("trainer.total_training_steps=19")
    assert "20 steps at most:" in words("trainer.total_training_steps=20")


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        (("--data-rows", "7473", "data.train_batch_size=64", "trainer.total_epochs=15"), "1,740"),
        (("--data-rows", "7473", "data.train_batch_size=64", "trainer.total_training_steps=200"), "200"),
    ],
    ids=["116 batches an epoch, the rest is dropped", "a setting comes before the rows"],
)
def test_the_rows_of_the_data_say_how_many_steps_the_epochs_have(
    options: tuple[str, ...], steps: str
) -> None:
    small = "actor_rollout_ref.actor.ppo_mini_batch_size=64"
    assert f"{steps} steps at most: " in words(*options, small)


def test_epochs_of_fine_tuning_have_hours_by_the_rows() -> None:
    launch = (
        "torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer data.micro_batch_size_per_gpu=4 "
        "data.train_batch_size=64 data.max_length=2048 model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct "
        "trainer.total_epochs=3"
    )
    said = run(
        "advise", *launch.split(), "--gpu", "h100-sxm", "--verl-version", "0.5.0", "--data-rows", "64000"
    )
    assert "3,000 steps at most: " in " ".join(said.out.split())
