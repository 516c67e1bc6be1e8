"""A release that is not bundled: what it does is not known, which the answer names and gives the range of."""

import json
import re
from functools import cache
from typing import Any

import pytest

from tests.cli.runner import run
from tuner.trainers.verl.releases import BUNDLED

pytestmark = pytest.mark.sampled(12)

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
LONG = (
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=128",
    "data.max_prompt_length=2048",
    "data.max_response_length=32768",
    "actor_rollout_ref.model.use_remove_padding=True",
    f"{ROLLOUT}.name=vllm",
    f"{ACTOR}.ppo_mini_batch_size=64",
    f"{ACTOR}.use_dynamic_bsz=True",
    f"{ACTOR}.ppo_max_token_len_per_gpu=24000",
    f"{ACTOR}.ulysses_sequence_parallel_size=2",
    f"{ACTOR}.entropy_coeff=0.001",
)
SHORT = (*LONG, "data.max_prompt_length=256", "data.max_response_length=1024")
OLD = [
    f"as verl {BUNDLED[0]}",
    "as releases before 0.3",
    "as releases before 0.3 with float32 logits (transformers before 4.46)",
]


def _arguments(release: str, *overrides: str, model: str = "DeepSeek-R1-Distill-Qwen-14B") -> list[str]:
    machine = ["--gpu", "a100-sxm-80g", "--gpus-per-node", "8", "--nodes", "4", "--model", model]
    return ["advise", "/dev/null", "--verl-version", release, *machine, "--", *overrides]


@cache
def answer(release: str, *overrides: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    command, *rest = _arguments(release, *overrides)
    result = run(command, *options, "--output-format", "json", *rest)
    assert result.code == 0, result.err
    report: dict[str, Any] = json.loads(result.out)
    return report


def considered(release: str, *overrides: str, options: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    ways = answer(release, *overrides, options=options)["release_range"]["considered"]
    return {way["name"]: way for way in ways}


@pytest.mark.parametrize("release", BUNDLED)
def test_of_a_bundled_release_nothing_is_left_open(release: str) -> None:
    assert answer(release, *SHORT)["release_range"] is None
    assert "not known" not in run(*_arguments(release, *SHORT)).out


@pytest.mark.parametrize("release", ["0.2.0", "0.3.1", "0.4.2", "0.7.2", "0.8.1", "99.0"])
@pytest.mark.parametrize("overrides", [LONG, SHORT], ids=["long", "short"])
def test_a_job_fits_only_if_it_does_whatever_the_release_does(
    release: str, overrides: tuple[str, ...]
) -> None:
    report = answer(release, *overrides)
    ways = report["release_range"]["considered"]
    assert ways[0]["name"] == f"as verl {report['premises']['release']}"
    assert ways[0]["worst_bytes"] == max(phase["peak_bytes"] for phase in report["memory"]["phases"])
    condition = report["memory_condition"]
    if condition in (None, "nothing_else", "doubt"):
        assert all(way["fits"] for way in ways)
    if report["memory_verdict"] == "fits":
        assert all(way["fits_at_high_end"] for way in ways)
    if condition == "release":
        assert report["memory_verdict"] == "may_not_fit"
        assert ways[0]["fits"] and not all(way["fits"] for way in ways)


def test_both_verdicts_occur() -> None:
    open_answer = answer("0.2.0", *LONG)
    assert (open_answer["memory_verdict"], open_answer["memory_condition"]) == ("may_not_fit", "release")
    assert answer("0.4.0", *LONG)["memory_verdict"] == "fits"
    assert answer("0.2.0", *SHORT)["memory_verdict"] == "fits"
    assert answer("0.2.0", *SHORT)["release_range"]["certain_tokens"] == 256 + 1024


def test_the_neighbours_are_considered_and_what_is_known_of_older_ones() -> None:
    assert list(considered("0.2.0", *LONG)) == OLD
    assert list(considered("0.3.1", *LONG)) == ["as verl 0.3.0.post1", "as verl 0.4.0"]
    assert list(considered("0.4.2", *LONG)) == ["as verl 0.4.1", "as verl 0.5.0"]
    assert list(considered("0.7.2", *LONG)) == ["as verl 0.7.1", "as verl 0.8.0"]
    assert list(considered("99.0", *LONG)) == [f"as verl {BUNDLED[-1]}"]


def test_a_bundled_release_is_priced_as_if_it_were_asked_for() -> None:
    for name, way in considered("0.7.2", *LONG).items():
        asked = answer(name.removeprefix("as verl "), *LONG)["memory"]
        peaks = {phase["phase"]: phase["peak_bytes"] for phase in asked["phases"]}
        assert way["worst_phase"] == asked["worst_phase"]
        assert way["worst_bytes"] == peaks[asked["worst_phase"]]


def test_float32_logits_cost_as_much_again() -> None:
    """Four tensors as large as the logits: scaled in place, with a compiled entropy."""
    ways = considered("0.2.0", *LONG)
    tokens = 2 * 34816 // 2  # two sequences of a GPU's four, half of each on it
    more = ways[OLD[-1]]["worst_bytes"] - ways[OLD[-2]]["worst_bytes"]
    assert more == 4 * 2 * tokens * 152064


def test_before_0_4_the_entropy_is_always_part_of_the_update() -> None:
    without = (*LONG, f"{ACTOR}.entropy_coeff=0")
    assert answer("0.3.0.post1", *without)["memory"] == answer("0.3.0.post1", *LONG)["memory"]
    assert answer("0.4.0", *without)["memory"] != answer("0.4.0", *LONG)["memory"]


def test_the_engine_of_a_release_before_0_3_is_vllm_0_6_3_unless_it_is_named() -> None:
    """Its cache is a share of what weights and activations leave."""
    large = (*SHORT, f"{ROLLOUT}.gpu_memory_utilization=0.9")
    old = considered("0.2.0", *large)["as releases before 0.3"]
    assert old["worst_phase"] in ("rollout", "wake_up")
    assert old == considered("0.2.0", *large, options=("--engine-version", "0.6.3"))["as releases before 0.3"]
    named = considered("0.2.0", *large, options=("--engine-version", "0.8.5"))
    assert named["as releases before 0.3"] != old


def test_a_release_that_refuses_the_configuration_is_left_out() -> None:
    with_engine = considered("0.8.1", *LONG, options=("--engine-version", "0.8.5"))
    assert list(with_engine) == ["as verl 0.8.0"]  # 0.9.0 needs 0.18.0 or newer


@pytest.mark.parametrize("surely", [False, True], ids=["expected", "at the high end"])
def test_the_length_that_fits_does_whatever_the_release_does(surely: bool) -> None:
    release_range = answer("0.2.0", *LONG)["release_range"]
    tokens = release_range["certain_tokens" if surely else "mean_tokens"]
    assert 0 < tokens < 34816

    def fits(mean: float) -> bool:
        share = mean / 34816
        lengths = {"prompt": int(2048 * share), "response": int(32768 * share)}
        scaled = (f"data.max_{part}_length={length}" for part, length in lengths.items())
        ways = considered("0.2.0", *LONG, *scaled)
        return all(way["fits_at_high_end" if surely else "fits"] for way in ways.values())

    assert fits(tokens)
    assert not fits(tokens * 1.05)


def test_the_text_names_the_fact_and_gives_the_range() -> None:
    command, *rest = _arguments("0.2.0", *LONG)
    said = " ".join(run(command, "--full", *rest).out.split())
    assert said.startswith("WILL NOT START refused by CFG130 CFG130 ")
    assert "With that lifted: MAY NOT FIT, " in said
    assert "as verl 0.3.0.post1, but at " in said
    assert ": what verl 0.2.0 does is not known." in said
    release_range = answer("0.2.0", *LONG)["release_range"]
    row = re.search(r"not known what verl 0\.2\.0 does: the worst phase peaks at (.*?) engine ", said)
    assert row is not None
    ends = sorted(way["worst_bytes"] / 2**30 for way in release_range["considered"])
    assert row[1].startswith(f"{ends[0]:.1f} GiB as verl ")
    assert f" to {ends[-1]:.1f} GiB {OLD[-1]}; if nothing else is on the card, it fits with" in row[1]
    assert f"average up to {release_range['mean_tokens']:,} tokens" in row[1]
    assert f"; else while they average up to {release_range['certain_tokens']:,}" in row[1]


def test_a_check_warns(tmp_path: Any) -> None:
    file = tmp_path / "job.yaml"
    sections: dict[str, Any] = {}
    for override in (*LONG, "trainer.n_gpus_per_node=8", "trainer.nnodes=4"):
        key, value = override.split("=")
        *way, leaf = key.split(".")
        node = sections
        for name in way:
            node = node.setdefault(name, {})
        node[leaf] = json.loads(value.lower()) if value[0].isdigit() or value == "True" else value
    file.write_text(json.dumps(sections))
    premises = ("--gpu", "a100-sxm-80g", "--model", "DeepSeek-R1-Distill-Qwen-14B")
    unknown = run("check", str(file), "--verl-version", "0.2.0", "-f", "concise", *premises)
    warning = (
        r": warning MEM001 does-not-fit: MAY NOT FIT, .* is not known; update_actor peaks at .*, but at .*$"
    )
    assert re.search(warning, unknown.out, re.MULTILINE)
    assert "MEM001" not in run("check", str(file), "--verl-version", "0.4.1", *premises).out


def test_standard_input_is_read_once() -> None:
    command, _, *rest = _arguments("0.2.0", *LONG)
    text = "actor_rollout_ref: {actor: {ppo_epochs: 1}}\n"
    result = run(command, "-", "--output-format", "json", *rest, stdin=text)
    assert result.code == 0, result.err
    assert json.loads(result.out)["release_range"] == answer("0.2.0", *LONG)["release_range"]
