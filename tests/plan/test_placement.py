"""Where a plan has responses generated: what it needs, what that is read back as, and what it brings."""

import json
from functools import cache
from typing import Any

import jsonschema
import pytest

from tests.cli.runner import run
from tests.plan.jobs import ACTOR, ROLLOUT, TYPED
from tuner.consultation.splits import WaitsFor, divisions, looked_at
from tuner.render.schemas import schema
from tuner.trainers.placement import PoolSplit

pytestmark = pytest.mark.usefixtures("plans_are_kept")

MODEL = ("--model", "qwen2.5-0.5b")
JOB = TYPED
ALL = "placement=colocated,one-step-off,fully-async,separate"


@cache
def placements(version: str = "0.9.1", *, named: str = ALL, more: tuple[str, ...] = ()) -> list[Any]:
    given = ("/dev/null", *MODEL, "--verl-version", version, "--gpu", "2xh100-sxm", "--gpus-per-node", "2")
    result = run("plan", *given, "--vary", named, "--output-format", "json", "--", *JOB, *more)
    assert result.code == 0, result.err
    answer = json.loads(result.out)
    jsonschema.validate(answer, schema("plan"), cls=jsonschema.Draft202012Validator)
    return list(answer["placements"])


def placed(name: str, version: str = "0.9.1", **job: Any) -> Any:
    (one,) = (it for it in placements(version, **job) if it["placement"] == name)
    return one


def test_none_is_planned_that_nobody_names() -> None:
    assert not placements(named="data.train_batch_size=128")
    assert [it["placement"] for it in placements(named="placement=one_step_off")] == ["one-step-off"]


@pytest.mark.parametrize("name", ["one-step-off", "fully-async"])
def test_the_command_of_another_program_is_what_was_planned(name: str) -> None:
    plan = placed(name)
    options = ("--gpu", "h100-sxm", "--verl-version", "0.9.1", *MODEL, "--output-format", "json")
    read = json.loads(run("advise", *options, *plan["launch"]).out)
    assert f"-m {plan['needs']['program']} --config-name=" in " ".join(plan["launch"])
    assert read["verdict"] == "fits"
    assert read["step_time"]["seconds"] == pytest.approx(plan["setting"]["seconds"], rel=1e-9)
    keys = [word.lstrip("+").partition("=")[0] for word in plan["launch"]]
    assert len(keys) == len(set(keys))


def test_separate_pools_are_lines_for_the_launch_that_there_is() -> None:
    plan = placed("separate")
    given = ("/dev/null", *MODEL, "--gpu", "h100-sxm", "--verl-version", "0.9.1", "--output-format", "json")
    read = json.loads(run("advise", *given, "--", *JOB, *plan["setting"]["overrides"]).out)
    assert plan["launch"] == []
    assert f"{ROLLOUT}.n_gpus_per_node=1" in plan["setting"]["overrides"]
    assert read["verdict"] == "fits"
    assert read["step_time"]["seconds"] == pytest.approx(plan["setting"]["seconds"], rel=1e-9)


@pytest.mark.parametrize("name", ["one-step-off", "fully-async", "separate"])
def test_a_step_takes_its_longer_side_and_trains_on_as_many_sequences(name: str) -> None:
    plan = placed(name)
    shorter, longer = sorted((plan["generation_s"], plan["training_s"]))
    assert longer < plan["setting"]["seconds"] < longer + shorter  # new weights come on top
    assert plan["split"]["training_gpus"] + plan["split"]["generating_gpus"] == 2
    assert plan["setting"]["gpu_hours"] == pytest.approx(plan["setting"]["seconds"] * 2 / 3600)
    changing = ("train_batch_size", "mini_batch_size", "rollout.n=", "max_response", "max_prompt")
    allowed = "data.train_batch_size=0"  # a stream of mini-batches instead
    lines = [text for text in plan["setting"]["overrides"] if text != allowed]
    assert not [text for text in lines if any(word in text for word in changing)]


def test_a_stream_has_as_many_mini_batches_as_the_step_had() -> None:
    lines = placed("fully-async")["setting"]["overrides"]
    assert "async_training.require_batches=2" in lines
    assert "async_training.staleness_threshold=1" in lines
    assert "async_training.trigger_parameter_sync_step=1" in lines


def test_what_overlap_brings_is_priced() -> None:
    """Responses of mean length 1,400 on one GPU of two take longer than both took for all of a step."""
    given = ("/dev/null", *MODEL, "--verl-version", "0.9.1", "--gpu", "2xh100-sxm", "--gpus-per-node", "2")
    long = ("--mean-response-length", "8000", "--vary", "placement=colocated,one-step-off")
    result = run("plan", *given, *long, "--", *JOB, "data.max_response_length=16384")
    words = " ".join(result.out.split())
    assert result.code == 0, result.err
    assert "one-step-off: nothing is" in words
    assert "A step waits for generation" in words
    assert "overlap takes away no more than training" in words
    assert "The training changes: every batch comes from the policy before the last update" in words


@pytest.mark.parametrize(
    ("version", "name", "words"),
    [
        ("0.4.1", "one-step-off", "it came with 0.5.0"),
        ("0.6.0", "fully-async", "it came with 0.6.1"),
        ("0.9.0", "separate", "they came with 0.9.1"),
    ],
)
def test_a_release_without_it_says_so(version: str, name: str, words: str) -> None:
    assert words in placed(name, version, named=f"placement={name}")["reason"]


def test_what_only_the_repository_has_is_said() -> None:
    assert not placed("one-step-off", "0.7.1", named="placement=one-step-off")["needs"]["packaged"]
    assert placed("one-step-off")["needs"]["packaged"]


def test_a_reward_model_on_the_same_gpus_keeps_generation_there() -> None:
    reward = (
        "reward.reward_model.enable=True",
        "reward.reward_model.model_path=Qwen/Qwen2.5-0.5B",
        "reward.reward_model.rollout.name=vllm",
    )
    plan = placed("one-step-off", named="placement=one-step-off", more=reward)
    assert "judges responses" in plan["reason"]
    assert plan["setting"] is None


def test_remax_has_no_greedy_responses_elsewhere() -> None:
    remax = ("algorithm.adv_estimator=remax",)
    plan = placed("one-step-off", "0.8.0", named="placement=one-step-off", more=remax)
    assert "greedy responses" in plan["reason"]


def test_a_job_that_is_apart_already_is_refused() -> None:
    given = ("/dev/null", *MODEL, "--verl-version", "0.9.1", "--gpu", "2xh100-sxm")
    apart = ("rollout.nnodes=1", "rollout.n_gpus_per_node=1", "actor_rollout_ref.hybrid_engine=False")
    apart = (*apart, f"{ROLLOUT}.tensor_model_parallel_size=1")
    result = run("plan", *given, "--vary", ALL, "--", *JOB, *apart)
    assert result.code == 2
    assert "generates on GPUs of its own already" in result.err


def test_a_placement_that_there_is_not_is_refused() -> None:
    result = run("plan", "/dev/null", *MODEL, "--gpu", "2xh100-sxm", "--vary", "placement=far", "--", *JOB)
    assert result.code == 2
    assert "there is no placement 'far'; the placements are colocated, one-step-off" in result.err


def test_divisions_that_would_need_another_batch_have_no_setting() -> None:
    """Three GPUs of four cannot share 64 prompts of 4 responses, and two can."""
    given = ("/dev/null", *MODEL, "--verl-version", "0.9.1", "--gpu", "4xh100-sxm", "--gpus-per-node", "4")
    options = ("--vary", "placement=one-step-off", "--mean-response-length", "20")
    result = run("plan", *given, *options, "--output-format", "json", "--", *JOB)
    (plan,) = json.loads(result.out)["placements"]
    seen = {one["split"]["training_gpus"]: one for one in plan["divisions"]}
    assert plan["waits_for"] == "training"  # so that more GPUs were tried for it
    assert seen[3]["seconds"] is None
    assert "CFG1" in seen[3]["reason"]
    assert plan["split"]["training_gpus"] == 2
    words = " ".join(run("plan", *given, *options, "--", *JOB).out.split())
    assert "Divisions planned, training + generating: 2 + 2" in words
    assert "3 + 1 none" in words


def test_a_micro_batch_that_a_pool_cannot_have_is_another_one_there() -> None:
    """120 sequences divide the share of one GPU of four and of two, and not the 160 of one of three."""
    given = ("/dev/null", *MODEL, "--verl-version", "0.9.1", "--gpu", "4xh100-sxm", "--gpus-per-node", "4")
    options = ("--vary", "placement=one-step-off", "--mean-response-length", "20")
    static = ("data.train_batch_size=240", f"{ACTOR}.ppo_mini_batch_size=240", f"{ROLLOUT}.n=2")
    static = (*static, f"{ACTOR}.ppo_epochs=8")  # so that more GPUs are tried for training
    static = (*static, f"{ACTOR}.use_dynamic_bsz=False", f"{ACTOR}.ppo_micro_batch_size_per_gpu=8")
    sized = (f"{ROLLOUT}.log_prob_use_dynamic_bsz=False", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=120")
    result = run("plan", *given, *options, "--output-format", "json", "--", *JOB, *static, *sized)
    (plan,) = json.loads(result.out)["placements"]
    seen = {one["split"]["training_gpus"]: one for one in plan["divisions"]}
    assert seen[3]["seconds"] is not None, seen[3]["reason"]


def sizes(series: tuple[PoolSplit, ...]) -> list[tuple[int, int]]:
    return [(split.training_gpus, split.generating_gpus) for split in series]


def test_nodes_are_divided_whole_or_all_alike() -> None:
    assert [sizes(series) for series in divisions(4, 1)] == [[(1, 3), (2, 2), (3, 1)]]
    assert [sizes(series) for series in divisions(2, 3)] == [[(2, 4), (4, 2)], [(3, 3)]]
    assert list(divisions(1, 1)) == []


@pytest.mark.parametrize("best", range(1, 8))
def test_the_best_division_is_among_those_that_are_looked_at(best: int) -> None:
    """Where fewer GPUs train the step waits for training, and elsewhere for generation."""
    (series,) = divisions(8, 1)

    def look(split: PoolSplit) -> tuple[int, WaitsFor | None]:
        trains = split.training_gpus
        return trains, WaitsFor.TRAINING if trains < best else WaitsFor.GENERATION

    seen = [trains for _split, trains in looked_at(series, look)]
    assert best in seen
    assert len(seen) <= 3


def test_where_nothing_fits_both_ways_are_gone() -> None:
    (series,) = divisions(8, 1)
    seen = [split.training_gpus for split, _seen in looked_at(series, lambda _split: (0, None))]
    assert sorted(seen) == list(range(1, 8))


def generating_s(*words: str, version: str = "0.9.1") -> float:
    """Seconds of the rollout of a launch of the fully asynchronous trainer."""
    launch = ("python3", "-m", "verl.experimental.fully_async_policy.fully_async_main")
    apart = ("actor_rollout_ref.hybrid_engine=False", "rollout.nnodes=1", "async_training.require_batches=8")
    options = ("--gpu", "h100-sxm", "--verl-version", version, *MODEL, "--output-format", "json")
    answer = json.loads(run("advise", *options, *launch, *JOB, *apart, *words).out)
    return float(next(it["seconds"] for it in answer["time"] if it["phase"] == "rollout"))


def test_an_engine_has_no_more_prompts_than_the_queue_hands_it() -> None:
    """16 of them up to verl 0.8, and as many as are set since: more than there are change nothing."""
    one = ("trainer.n_gpus_per_node=1", "rollout.n_gpus_per_node=2", f"{ROLLOUT}.n=2")
    key = "async_training.concurrent_samples_per_replica"
    few, usual, many, all_of_them = (generating_s(*one, f"{key}={number}") for number in (4, 16, 512, 1024))
    assert few > 1.2 * usual
    assert usual > 1.2 * many == 1.2 * all_of_them
    assert generating_s(*one) == usual


def test_replicas_stay_in_the_nodes_of_their_own_pool() -> None:
    sizes = ("rollout.n_gpus_per_node=4", f"{ROLLOUT}.tensor_model_parallel_size=2")
    alone, beside = (generating_s(*sizes, f"trainer.n_gpus_per_node={gpus}") for gpus in (1, 4))
    assert alone == beside
