"""``tuner check`` says what ``tuner advise`` knows of a gain, and tells no finding that gains nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import Result, run
from tuner.cli.formats import FORMATS

SCRIPT = """\
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.max_prompt_length=1024 data.max_response_length=1024 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.model.use_remove_padding=False \\
    actor_rollout_ref.actor.ppo_mini_batch_size=128 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \\
    actor_rollout_ref.rollout.name=vllm \\
    trainer.n_gpus_per_node=8
"""
GIVEN = ("--gpu", "h100-sxm", "--isolated", "--verl-version", "0.9.1")
FIELD = ("json", "json-lines")


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "run.sh"
    file.write_text(SCRIPT)
    return file


def check(*words: str) -> Result:
    return run("check", "run.sh", *words, *GIVEN)


def findings(*words: str) -> list[dict[str, Any]]:
    return list(json.loads(check("-f", "json", *words).out)["findings"])


def advice() -> dict[str, Any]:
    return dict(json.loads(run("advise", "run.sh", "--output-format", "json", *GIVEN).out))


def test_the_price_of_a_finding_is_that_of_the_advice() -> None:
    prices = {(item["code"], *item["overrides"]): item["price"] for item in advice()["findings"]}
    priced = {(item["code"], *item["overrides"]): item["price"] for item in findings()}
    assert any(price is not None for price in priced.values())
    assert all(prices[about] == price for about, price in priced.items() if about in prices)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_once_what_a_finding_gains(name: str) -> None:
    (gain,) = (item["gain"] for item in findings("--select", "BAT004"))
    assert "step" in gain and "shorter" in gain and "modelled" in gain
    shown = " ".join(check("--select", "BAT004", "-f", name).out.split())
    shown = shown.replace("→", "->").replace("\\u2192", "->").replace("-&gt;", "->").replace("\\>", ">")
    if name == "junit":  # which says a failure twice, and this is none
        assert shown.count(gain) == 1
    assert shown.count(gain.replace("%", "%25") if name == "github" else gain) == 1


def test_what_gains_nothing_is_no_finding() -> None:
    codes = {item["code"] for item in advice()["findings"]}
    assert "ROL016" in codes  # it changes neither bytes nor seconds
    assert "ROL016" not in {item["code"] for item in findings()}
    assert "Gains nothing here" in run("advise", "run.sh", "--full", *GIVEN).out


def test_a_baseline_does_not_change_with_a_gain(script: Path) -> None:
    shorter = ("--mean-response-length", "100")
    before, after = ({item["code"]: item["gain"] for item in findings(*words)} for words in ((), shorter))
    assert after["BAT004"] != before["BAT004"]
    both = ("--select", ",".join(before.keys() & after.keys()))  # a gain that is none is not told
    check("--write-baseline", "known.json", *both)
    known = Path("known.json").read_bytes()
    check("--write-baseline", "known.json", *both, *shorter)
    beside = check("--baseline", "known.json", *both, "-f", "json")
    assert json.loads(beside.out)["findings"] == []
    assert (
        json.loads(known)["findings"].keys() == json.loads(Path("known.json").read_text())["findings"].keys()
    )


def test_what_buys_memory_or_time_has_no_fix_and_is_told_once(script: Path) -> None:
    line = next(item for item in findings() if item["code"] == "BAT004")
    assert line["fix"] is None and line["in_block"]
    assert line["no_fix"] == "tuner advise --write writes what buys memory or time"
    result = check("--fix")
    count = sum(item["in_block"] for item in findings())
    assert f"{count} findings buy memory or time: tuner advise --write FILE" in result.err
    assert "not fixed" not in result.err and "[*]" not in result.out
    assert script.read_text() == SCRIPT


OFFLOADED = """\
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.max_prompt_length=512 data.max_response_length=1024 data.train_batch_size=512 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-32B-Instruct \\
    actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.actor.ppo_mini_batch_size=128 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.actor.fsdp_config.param_offload=True \\
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=True \\
    actor_rollout_ref.ref.fsdp_config.param_offload=True \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=4096 \\
    actor_rollout_ref.rollout.tensor_model_parallel_size={gpus} \\
    trainer.n_gpus_per_node={gpus}
"""


@pytest.mark.parametrize(("gpus", "few"), [(8, False), (4, True), (2, True)])
def test_host_memory_is_a_gain_where_usual_nodes_have_too_little(script: Path, gpus: int, few: bool) -> None:
    """The same 687 GiB are less than usual nodes of eight GPUs have, and more than those of four and two.

    A reference in 16 bits leaves the bytes of the card and the seconds as they are.
    """
    script.write_text(OFFLOADED.format(gpus=gpus))
    given = ("run.sh", "--gpu", "h200-sxm", "--isolated", "--verl-version", "0.7.1")
    assert ("MEM013" in codes(*given)) is few
    assert "MEM013" not in codes(*given, "--host-memory", "2000")
    assert "MEM013" in codes(*given, "--host-memory", "256")


def codes(*words: str) -> set[str]:
    return {item["code"] for item in json.loads(run("check", *words, "-f", "json").out)["findings"]}
