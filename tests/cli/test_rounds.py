"""Rounds of generation where groups are filtered, and the longest response, on the command line."""

import json
import re
from functools import cache
from typing import Any

import pytest

from tests.cli.runner import run
from tests.inputs.logs import TIMED as METRICS
from tests.inputs.logs import log

pytestmark = pytest.mark.sampled(12)

MEANS = ("--mean-prompt-length", "200", "--mean-response-length", "1000")
JOB = (
    "data.train_batch_size=128 data.max_prompt_length=1024 data.max_response_length=4096 "
    "actor_rollout_ref.rollout.n=16 algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.actor.ppo_mini_batch_size=32 "
    "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.rollout.tensor_model_parallel_size=1 "
    "trainer.n_gpus_per_node=8 trainer.nnodes=1"
)
FILTER = "algorithm.filter_groups.enable=True algorithm.filter_groups.metric=acc"
DAPO = f"python3 -m recipe.dapo.main_dapo {JOB} data.gen_batch_size=128 {FILTER}"
V1 = f"python3 -m verl.trainer.main_ppo {JOB} {FILTER}"


@cache
def advised(launch: str, *words: str, release: str = "0.7.0") -> dict[str, Any]:
    given = ("--gpu", "h100-sxm", "--release", release, *MEANS, "-f", "json")
    result = run("advise", "-", *given, *words, stdin=launch)
    assert result.code == 0, result.err
    return dict(json.loads(result.out))


def said(*words: str, launch: str = DAPO, release: str = "0.7.0", means: tuple[str, ...] = MEANS) -> str:
    result = run(
        "advise", "-", "--gpu", "h100-sxm", "--release", release, "--full", *means, *words, stdin=launch
    )
    return " ".join((result.out + result.err).split())


def seconds(report: dict[str, Any], phase: str = "rollout") -> float:
    return float(next(one["seconds"] for one in report["time"] if one["phase"] == phase))


def falling_asleep(report: dict[str, Any]) -> float:
    rollout = next(one for one in report["time"] if one["phase"] == "rollout")
    return float(next(part["seconds"] for part in rollout["parts"] if part["name"] == "asleep"))


def peaks(report: dict[str, Any]) -> list[Any]:
    return [
        (one["phase"], one["peak_bytes"], one["interval_bytes"], one["allocated_bytes"])
        for one in report["memory"]["phases"]
    ]


def interval(report: dict[str, Any]) -> float:
    return float(report["step_time"]["high_s"] - report["step_time"]["low_s"])


def test_rounds_are_generated_until_enough_groups_are_kept() -> None:
    whole = advised(DAPO, "--kept-groups", "1")
    third = advised(DAPO, "--kept-groups", "0.35")  # 134 of three rounds are kept, with a spread of 9
    assert 3 < seconds(third) / seconds(whole) < 3.5
    larger = advised(DAPO, "data.gen_batch_size=384", "--kept-groups", "0.4")  # 154 of the first
    assert seconds(larger) < 2 * seconds(whole)
    for phase in ("old_log_prob", "update_actor"):
        assert seconds(third, phase) == seconds(whole, phase)
    assert peaks(third) == peaks(whole) == peaks(larger)


def test_a_step_without_spread_takes_whole_rounds() -> None:
    """Half of 1,280 groups make up ten times 64 of them, give or take 18: a second round comes or not."""
    rounds = [
        seconds(advised(DAPO, f"data.gen_batch_size={size}", "--kept-groups", "0.5")) for size in (192, 320)
    ]
    once = [
        seconds(advised(DAPO, f"data.gen_batch_size={size}", "--kept-groups", "1")) for size in (192, 320)
    ]
    assert rounds[0] / once[0] == pytest.approx(2, abs=0.02)  # the engine falls asleep once
    assert rounds[1] / once[1] == pytest.approx(1, abs=0.01)


def test_new_weights_travel_before_every_round_as_long_as_releases_did_so() -> None:
    for release, times in (("0.7.0", 2), ("0.8.0", 1)):
        two, one = (
            advised(DAPO, "data.gen_batch_size=192", "--kept-groups", share, release=release)
            for share in ("0.5", "1")
        )
        ratio = seconds(two, "update_weights") / seconds(one, "update_weights")
        assert ratio == pytest.approx(times, abs=0.01)
        assert falling_asleep(two) == pytest.approx(times * falling_asleep(one), rel=0.01)


def test_the_v1_trainer_replaces_groups_and_throws_away_what_is_left() -> None:
    def kept(share: str) -> dict[str, Any]:
        return advised(V1, "--kept-groups", share, release="0.9.1")

    assert "3.5 times the responses of a step are generated" in said(
        "--kept-groups", "0.4", launch=V1, release="0.9.1"
    )
    assert seconds(kept("1")) < seconds(kept("0.6")) < seconds(kept("0.4"))
    assert seconds(kept("0.4"), "update_actor") == seconds(kept("1"), "update_actor")


UNFILTERED = f"python3 -m verl.trainer.main_ppo {JOB}"


def test_without_a_filter_a_step_trains_on_all_that_is_generated() -> None:
    generated = advised(UNFILTERED, "+data.gen_batch_size=256")
    trained = advised(UNFILTERED, "data.train_batch_size=256")
    assert generated["workload"]["batch"]["prompts"] == 256
    for phase in ("rollout", "update_actor"):
        assert seconds(generated, phase) == pytest.approx(seconds(trained, phase))
    later = advised(UNFILTERED, "data.gen_batch_size=256", release="0.9.1")
    assert later["workload"]["batch"]["prompts"] == 128  # collected of pieces
    assert "leave out the batch size of generation" not in said("+data.gen_batch_size=256", launch=UNFILTERED)


def test_assertions_count_the_training_batch_whatever_is_generated() -> None:
    words = ("+data.gen_batch_size=256", "actor_rollout_ref.actor.ppo_mini_batch_size=192")
    report = advised(UNFILTERED, *words, "actor_rollout_ref.actor.use_dynamic_bsz=False")
    (finding,) = (one for one in report["findings"] if one["code"] == "CFG111")
    assert "exceeds data.train_batch_size=128" in finding["message"]


def test_an_epoch_has_as_many_steps_as_batches_are_generated() -> None:
    epochs = ("trainer.total_epochs=4", "--data-rows", "12800")
    assert "400 steps" in said(*epochs, launch=UNFILTERED)
    assert "200 steps" in said("+data.gen_batch_size=256", *epochs, launch=UNFILTERED)


def test_what_is_assumed_is_said_with_its_ends_and_its_option() -> None:
    text = said()
    assert "0.58 (0.33 to 1, assumed) of the groups are kept: 2.01 rounds of 128 prompts a step" in text
    assert "give --kept-groups" in text
    assert "groups that are filtered" not in text
    assert "are kept: 1 round of 128 prompts a step" in said("--kept-groups", "1")
    known = said("--kept-groups", "0.6")
    assert "0.6 (--kept-groups) of the groups are kept" in known
    assert "give --kept-groups" not in known


def test_the_interval_has_what_is_assumed_and_says_what_would_narrow_it() -> None:
    assumed, known = advised(DAPO), advised(DAPO, "--kept-groups", "0.577")
    assert seconds(known) == seconds(assumed)
    assert interval(known) < 0.9 * interval(assumed)
    first, *_others = assumed["step_time"]["narrowed_by"]
    assert first["name"] == "kept_groups"
    assert first["width_share"] == pytest.approx(interval(known) / interval(assumed), rel=0.02)
    assert {one["name"] for one in known["step_time"]["narrowed_by"]} <= {"response_max"}
    assert f"{first['width_share']:.0%} of its width with --kept-groups" in said().replace(" %", "%")


def test_a_limit_of_rounds_that_is_not_enough_is_said() -> None:
    few = "algorithm.filter_groups.max_num_gen_batches=3"
    assert "and verl stops with an error after 3" in said(few, "--kept-groups", "0.2")
    assert "stops with an error" not in said(few, "--kept-groups", "0.9")
    assert "stops with an error" not in said(few, "--kept-groups", "0.2", launch=V1, release="0.9.1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kept-groups", "0"), "--kept-groups 0: a step of which no group is kept never ends"),
        (
            ("--kept-groups", "0.5", "algorithm.filter_groups.enable=False"),
            "--kept-groups 0.5: this job filters no groups",
        ),
        (("--response-max", "5000"), "--response-max 5,000: responses have at most 4,096 tokens"),
        (
            ("--response-max", "900"),
            "--response-max 900 is below --mean-response-length 1,000",
        ),
    ],
)
def test_what_no_job_has_is_refused(words: tuple[str, ...], message: str) -> None:
    assert message in said(*words)


PPO = f"python3 -m verl.trainer.main_ppo {JOB}"


def test_a_cap_that_no_response_reaches_costs_next_to_nothing() -> None:
    def capped(most: int, *words: str) -> dict[str, Any]:
        words = (f"data.max_response_length={most}", *words)
        return advised(PPO, *words, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768")

    far, farther = capped(8192), capped(20480)
    assert seconds(farther) < 1.15 * seconds(far)  # tensors that are padded to it travel
    longest = capped(20480, "--response-max", "20480")
    assert seconds(longest) > 1.8 * seconds(farther)
    assert farther["step_time"]["high_s"] > longest["step_time"]["seconds"]
    assert [one["name"] for one in farther["step_time"]["narrowed_by"]] == ["response_max"]
    assert peaks(farther) == peaks(longest)


def test_the_answer_names_what_halves_the_seconds_of_the_least_sure_phase() -> None:
    words = ("--gpu", "h100-sxm", "--release", "0.7.0", *MEANS, "data.max_response_length=20480")
    budget = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768"
    short, told = (
        " ".join(run("advise", "-", *words, budget, *more, stdin=PPO).out.split())
        for more in ((), ("--response-max", "20480"))
    )
    assert re.search(r"rollout may take \d+ to \d+ s; --response-max would leave \d+ ?% of that width", short)
    assert "--response-max would leave" not in told


def test_where_the_mean_is_near_the_cap_the_cap_is_the_longest() -> None:
    near = ("--mean-prompt-length", "200", "--mean-response-length", "2200")
    text = said(launch=PPO, means=near)
    assert "longest response" not in text
    assert "--response-max" not in text
    plain, given = (
        json.loads(
            run(
                *("advise", "-", "--gpu", "h100-sxm", "--release", "0.7.0", *near, "-f", "json"),
                *words,
                stdin=PPO,
            ).out
        )
        for words in ((), ("--response-max", "4096"))
    )
    assert plain["time"] == given["time"]


def test_a_log_tells_both() -> None:
    told = {"response_length/mean": 1000.0, "response_length/max": 3000.0}
    steps = [METRICS | told | {"train/num_gen_batches": count} for count in (9, 2, 2, 3, 2)]
    text = log("0.7.0", f"{JOB} {FILTER} data.gen_batch_size=128".split(), steps)
    result = run("advise", "-", "--gpu", "h100-sxm", "-f", "json", stdin=text)
    report = json.loads(result.out)
    assert {"response_max", "kept_groups"} <= set(report["log"]["lengths"])
    assert report["workload"]["batch"]["lengths"]["response_max"] == 3000
    assert "2.25 rounds of 128 prompts" in " ".join(
        run("advise", "-", "--gpu", "h100-sxm", "--full", stdin=text).out.split()
    )


@pytest.mark.parametrize(("prompts", "proposed"), [(16, "data.gen_batch_size=256"), (384, None)])
def test_small_rounds_are_named_with_the_size_that_takes_the_least_time(
    prompts: int, proposed: str | None
) -> None:
    """Yours to decide: what a step trains on is the same kind of groups, and other ones."""
    report = advised(DAPO, f"data.gen_batch_size={prompts}")
    overrides = [text for one in report["findings"] if one["code"] == "ROL031" for text in one["overrides"]]
    assert overrides == ([] if proposed is None else [proposed])
    block = report["combination"]
    assert block is None or not any("gen_batch_size" in text for text in block["overrides"])
