"""``tuner plan``: the best settings, the fewest GPUs, prices and what is held."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run
from tests.plan.jobs import ACTOR, ROLLOUT, TYPED

pytestmark = pytest.mark.usefixtures("plans_are_kept")

JOB = (*TYPED, "trainer.total_training_steps=200")
SMALL = ("/dev/null", "--model", "qwen2.5-0.5b", "--verl-version", "0.9.1", "--gpu", "2xh100-sxm")


@cache
def planned(*options: str, model: str = "qwen2.5-0.5b", gpu: str = "2xh100-sxm") -> dict[str, Any]:
    given = ("/dev/null", "--model", model, "--verl-version", "0.9.1", "--gpu", gpu)
    result = run("plan", *given, *options, "--output-format", "json", "--", *JOB)
    assert result.code in (0, 1), result.err
    answer: dict[str, Any] = json.loads(result.out)
    return answer


@cache
def advised(*overrides: str) -> dict[str, Any]:
    result = run("advise", *SMALL, "--output-format", "json", "--", *JOB, *overrides)
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)
    return answer


def test_each_setting_is_what_advise_says_of_its_overrides() -> None:
    for setting in planned()["plan"]["settings"]:
        judged = advised(*setting["overrides"])
        assert judged["verdict"] == "fits"
        assert judged["step_time"]["seconds"] == pytest.approx(setting["seconds"], rel=1e-9)
        peaks = {phase["phase"]: phase["peak_bytes"] for phase in judged["memory"]["phases"]}
        assert {phase["phase"]: phase["peak_bytes"] for phase in setting["phases"]} == peaks


def test_no_setting_is_named_that_takes_half_as_long_again() -> None:
    """The README's example has a fifth layout that takes several times as long as the first one."""
    example = str(Path(__file__).parents[2] / "docs/examples/qwen2.5-7b-grpo.yaml")
    given = (example, "trainer.n_gpus_per_node=8", "--gpu", "h100-sxm", "--verl-version", "0.7.1")
    settings = json.loads(run("plan", *given, "--output-format", "json").out)["plan"]["settings"]
    seconds = [setting["seconds"] for setting in settings]
    assert len(seconds) > 1
    assert seconds == sorted(seconds)
    assert seconds[-1] <= 1.5 * seconds[0]


def test_the_plan_is_no_worse_than_the_block_of_advise() -> None:
    block = advised("trainer.n_gpus_per_node=2")["combination"]
    assert planned()["plan"]["settings"][0]["seconds"] <= block["seconds"]


def test_settings_are_in_the_order_of_their_seconds_and_ties_share_a_rank() -> None:
    settings = planned()["plan"]["settings"]
    seconds = [setting["seconds"] for setting in settings]
    ranks = [setting["rank"] for setting in settings]
    assert 1 < len(settings) <= 5
    assert seconds == sorted(seconds)
    assert ranks[0] == 1
    assert all(
        rank in (place, before) for place, (rank, before) in enumerate(zip(ranks[1:], ranks, strict=False), 2)
    )


def test_the_fewest_gpus_are_told() -> None:
    answer = planned(model="qwen2.5-32b", gpu="8xh100-sxm")
    fitting = [row["plan"]["cluster"]["gpus"] for row in answer["capacity"] if row["plan"]["settings"]]
    looked_at = [row["plan"]["cluster"]["gpus"] for row in answer["capacity"]]
    assert looked_at == [1, 2, 4, 8]
    assert answer["fewest"]["gpus"] == min(fitting) > 1


def test_a_price_is_told_of_a_step_and_of_all_of_them() -> None:
    answer = planned("--price", "h100-sxm=2.5/h")
    setting = answer["plan"]["settings"][0]
    assert answer["steps"] == 200
    assert setting["gpu_hours"] == pytest.approx(setting["seconds"] * 2 / 3600)
    assert setting["price"] == pytest.approx(2.5 * setting["gpu_hours"])
    assert setting["whole"]["price"] == pytest.approx(200 * setting["price"])


def test_what_is_held_stays() -> None:
    key = f"{ACTOR}.ppo_max_token_len_per_gpu"
    for setting in planned("--hold", f"{key}=8192")["plan"]["settings"]:
        assert [text for text in setting["overrides"] if text.startswith(key)] == [f"{key}=8192"]
    for setting in planned("--hold", key)["plan"]["settings"]:
        assert not [text for text in setting["overrides"] if text.startswith(key)]
    free = planned()["plan"]["settings"][0]["overrides"]
    assert [text for text in free if text.startswith(key)]


def test_what_changes_the_training_is_in_no_setting() -> None:
    changing = ("train_batch_size", "mini_batch_size", "rollout.n=", "max_response", "max_prompt", "dtype")
    for setting in planned()["plan"]["settings"]:
        assert not [text for text in setting["overrides"] if any(word in text for word in changing)]


def test_keys_that_change_the_training_are_varied_where_they_are_named() -> None:
    answer = planned(
        "--gpus-per-node", "2", "--vary", "data.train_batch_size=64,128", "--price", "h100-sxm=2"
    )
    small, own = answer["variants"]
    assert small["overrides"] == ["data.train_batch_size=64"]
    assert small["plan"]["settings"][0]["seconds"] < own["plan"]["settings"][0]["seconds"]
    assert own["plan"]["settings"][0]["seconds"] == answer["plan"]["settings"][0]["seconds"]
    assert "data.train_batch_size=64" in small["plan"]["settings"][0]["overrides"]


def test_a_value_that_a_release_does_not_read_leaves_the_others() -> None:
    given = ("/dev/null", "--model", "qwen2.5-0.5b", "--gpu", "2xh100-sxm", "--gpus-per-node", "2")
    key = f"{ACTOR}.strategy"
    options = ("--verl-version", "0.9.1", "--vary", f"{key}=fsdp,deepspeed")
    result = run("plan", *given, *options, "--", *JOB)
    words = " ".join(result.out.partition("Varied")[2].split())
    assert result.code == 0, result.err
    assert f"{key}=deepspeed cannot be read" in words and "'deepspeed' is not modelled" in words
    none = run("plan", *given, "--verl-version", "0.9.1", "--vary", f"{key}=deepspeed", "--", *JOB)
    assert none.code == 2 and "'deepspeed' is not modelled" in none.err


def test_what_needs_a_package_is_no_part_of_the_block() -> None:
    first, *others = planned("--hold", "actor_rollout_ref.model.use_fused_kernels=False")["plan"]["settings"]
    assert not [text for text in first["overrides"] if "liger" in text]
    assert first["with_package"]["package"] == "liger-kernel"
    assert first["with_package"]["overrides"] == ["actor_rollout_ref.model.use_liger=True"]
    assert first["with_package"]["seconds"] < first["seconds"]
    assert all(setting["with_package"] is None for setting in others)


def test_several_nodes_say_which_network_was_assumed() -> None:
    result = run("plan", *SMALL, "--nodes", "1-2", "--hold", f"{ROLLOUT}.name", "--", *JOB)
    assert result.code == 0, result.err
    words = " ".join(result.out.split())
    assert "h100-sxm: 400 Gb/s for each GPU between nodes (assumed); give --network" in words
    assert "Over numbers and cards" in result.out


def test_markdown_has_the_same_blocks() -> None:
    result = run("plan", *SMALL, "--output-format", "markdown", "--", *JOB)
    best = planned()["plan"]["settings"][0]["overrides"]
    assert result.code == 0, result.err
    assert all(text in result.out for text in best)


def test_where_nothing_fits_it_is_said_what_lacks() -> None:
    given = ("/dev/null", "--model", "qwen2.5-72b", "--verl-version", "0.9.1", "--gpu", "1xh100-sxm")
    result = run("plan", *given, "--", *JOB)
    assert result.code == 1, result.err
    assert "Nothing fits on 1 x h100-sxm on 1 node" in result.out
    words = " ".join(result.out.split())
    assert "In every setting that was looked at these lack memory, at least: " in words
    assert "The setting that comes nearest: " in words
    assert re.search(
        r"It would surely fit with: \d+ x h100-sxm on \d nodes? \(\d+ s a step, [\d.]+ GPU-hours\)", words
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nodes", "4-2"), "--nodes 4-2: expected a number"),
        (("--nodes", "0"), "--nodes 0: expected a number from 1"),
        (("--vary", "data.batch=1,2"), "--vary data.batch: the configuration has no such key"),
        (("--vary", "data.train_batch_size"), "--vary data.train_batch_size: expected KEY=VALUE,VALUE"),
        (("--price", "h100-sxm"), "--price h100-sxm: expected GPU=PRICE"),
        (("--price", "h200-sxm=3"), "--price h200-sxm: no plan is for this card"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: tuple[str, ...], message: str) -> None:
    result = run("plan", *SMALL, *options, "--", *JOB)
    assert result.code == 2
    assert message in result.err


def test_a_launch_that_trains_nothing_has_no_plan() -> None:
    result = run("plan", *SMALL, "--", *JOB, "trainer.val_only=True")
    assert result.code == 2
    assert "the launch ends before its first update" in result.err


def test_a_launcher_of_processes_is_told_how_many_to_start() -> None:
    launch = ("torchrun", "--nproc_per_node=2", "-m", "verl.trainer.sft_trainer", "data.train_batch_size=64")
    result = run("plan", "--gpu", "h100-sxm", *launch, "model.path=Qwen/Qwen2.5-0.5B")
    words = " ".join(result.out.split())
    assert result.code == 0, result.err
    assert "Best on 2 x h100-sxm" in words
    assert "n_gpus_per_node" not in words
    assert "have it start 1 on each node" in words


def test_gpus_of_a_rollout_engine_count_in_gpu_hours() -> None:
    launch = ("python3", "-m", "verl.experimental.fully_async_policy.fully_async_main")
    sizes = ("trainer.n_gpus_per_node=2", "rollout.nnodes=1", "rollout.n_gpus_per_node=4")
    others = ("actor_rollout_ref.hybrid_engine=False", "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B")
    options = ("--gpu", "2xh100-sxm", "--gpus-per-node", "2", "--output-format", "json")
    result = run("plan", *options, *launch, *JOB, *sizes, *others)
    assert result.code == 0, result.err
    setting = json.loads(result.out)["plan"]["settings"][0]
    assert setting["gpu_hours"] == pytest.approx(setting["seconds"] * 6 / 3600)


def test_a_layout_that_lifts_a_refusal_goes_before_another_batch() -> None:
    """Of 102 sequences two ranks get as many each, and four do not: two GPUs share a sequence."""
    given = ("/dev/null", "--model", "qwen2.5-0.5b", "--verl-version", "0.9.1", "--gpu", "4xh100-sxm")
    options = ("--gpus-per-node", "4", "--output-format", "json")
    three = ("data.train_batch_size=102", f"{ACTOR}.ppo_mini_batch_size=102", f"{ROLLOUT}.n=1")
    answer = json.loads(run("plan", *given, *options, "--", *JOB, *three).out)
    assert not answer["plan"]["decisions"]
    for setting in answer["plan"]["settings"]:
        assert not [text for text in setting["overrides"] if "batch_size=" in text and "micro" not in text]
        assert f"{ACTOR}.ulysses_sequence_parallel_size=2" in setting["overrides"]


def test_another_batch_that_nothing_else_replaces_is_the_users_to_decide() -> None:
    given = ("/dev/null", "--model", "qwen2.5-0.5b", "--verl-version", "0.9.1", "--gpu", "4xh100-sxm")
    odd = ("data.train_batch_size=101", f"{ACTOR}.ppo_mini_batch_size=101", f"{ROLLOUT}.n=1")
    answer = json.loads(
        run("plan", *given, "--gpus-per-node", "4", "--output-format", "json", "--", *JOB, *odd).out
    )
    (decision,) = answer["plan"]["decisions"]
    assert [key for key, _ in decision["values"] if key.endswith("batch_size")]
    assert answer["plan"]["settings"]


@pytest.mark.sampled(15)  # all that could make it fit is tried, on every number of GPUs
def test_what_fits_nowhere_and_has_no_prompts_is_answered() -> None:
    launch = ("torchrun", "--nproc_per_node=1", "-m", "verl.trainer.sft_trainer", "data.train_batch_size=64")
    result = run(
        "plan", "--gpu", "1xrtx-4090", *launch, "model.path=Qwen/Qwen2.5-72B", "data.max_length=4096"
    )
    assert result.code == 1, result.err
    assert "Nothing fits on 1 x rtx-4090" in result.out
