"""A job whose trained model generates by itself has no engine: no share of the card, no advice on one."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

ROLE = "actor_rollout_ref"
LAUNCH = f"""python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 \\
    {ROLE}.model.path=Qwen/Qwen2.5-3B {ROLE}.rollout.name=hf {ROLE}.actor.ppo_mini_batch_size=64 \\
    data.max_prompt_length=512 data.max_response_length=512 {ROLE}.rollout.n=2 trainer.n_gpus_per_node=8 \\
    {ROLE}.actor.ppo_micro_batch_size_per_gpu=4 {ROLE}.rollout.log_prob_micro_batch_size_per_gpu=4
"""


def answer_to(path: Path, launch: str) -> dict[str, Any]:
    path.write_text(launch)
    out = run("advise", str(path), "--gpu", "h100-sxm", "--verl-version", "0.4.1", "-f", "json").out
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_a_model_that_generates_by_itself(tmp_path: Path) -> None:
    answer = answer_to(tmp_path / "run.sh", LAUNCH)

    codes = {finding["code"] for finding in answer["findings"]}
    assert not {code for code in codes if code.startswith("ROL")}
    assert [part["key"] for part in answer["left_out"]] == [f"{ROLE}.rollout.name"]
    assert "gpu_memory_utilization" not in json.dumps(answer["premises"]["resting_on_defaults"])
    phases = {phase["phase"]: phase for phase in answer["memory"]["phases"]}
    assert not {"update_weights", "wake_up"} & set(phases)
    timed = {phase["phase"]: phase for phase in answer["time"]}
    assert "update_weights" not in timed  # nothing is sent to an engine
    # 36 layers of 40 + 4 + 12 kernels and 60 beside them, 20 us each, for every token of the longest response
    least = 256 * (36 * 56 + 60) * 20e-6
    assert least < timed["rollout"]["seconds"] < 2.2 * least
    (generation,) = phases["rollout"]["moments"]
    sizes = {term["name"]: term["bytes"] for term in generation["terms"]}
    assert not {"engine_weights", "engine_activations"} & set(sizes)
    # 64 x 2 sequences on 8 GPUs, each of 1,024 tokens in 36 layers of 2 x 2 heads of 128 in 2 bytes
    assert sizes["kv_cache"] == 16 * 1024 * 36 * 2 * 2 * 128 * 2

    larger = answer_to(tmp_path / "run.sh", f"{LAUNCH.rstrip()} {ROLE}.rollout.gpu_memory_utilization=0.9")
    peaks = [[phase["peak_bytes"] for phase in said["memory"]["phases"]] for said in (answer, larger)]
    assert peaks[0] == peaks[1]  # there is nothing that takes a share
    assert {finding["code"] for finding in larger["findings"]} == codes


def test_an_engine_that_generates(tmp_path: Path) -> None:
    answer = answer_to(tmp_path / "run.sh", LAUNCH.replace("name=hf", "name=vllm"))
    assert {"update_weights", "wake_up"} <= {phase["phase"] for phase in answer["memory"]["phases"]}
    assert not answer["left_out"]


def test_an_engine_is_proposed_first(tmp_path: Path) -> None:
    answer = answer_to(tmp_path / "run.sh", LAUNCH)
    finding = answer["findings"][0]
    assert finding["code"] == "CFG209"
    assert finding["overrides"] == [f"{ROLE}.rollout.name=vllm"]
    change = finding["price"]["change"]
    assert change["high_share"] < -0.08  # for certain
    assert change["low_share"] < change["high_share"] - 0.2  # and little is known of how much

    odd = answer_to(tmp_path / "run.sh", LAUNCH.replace("n_gpus_per_node=8", "n_gpus_per_node=1"))
    (overrides,) = [finding["overrides"] for finding in odd["findings"] if finding["code"] == "CFG209"]
    assert overrides == [f"{ROLE}.rollout.name=vllm", f"{ROLE}.rollout.tensor_model_parallel_size=1"]


@pytest.mark.parametrize(
    ("has_engine", "installs", "proposed"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_copy_of_verl_that_may_lack_the_engine(
    tmp_path: Path, has_engine: bool, installs: bool, proposed: bool
) -> None:
    for name in (".git", "verl/trainer/config", "verl/workers/rollout/vllm_rollout"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "verl/trainer/main_ppo.py").write_text("config.actor_rollout_ref.rollout.name\n")
    (tmp_path / "verl/workers/fsdp_workers.py").write_text('rollout_name == "hf"\n')
    if has_engine:
        (tmp_path / "verl/workers/rollout/vllm_rollout/rollout.py").write_text("from vllm import LLM\n")
    (tmp_path / "requirements.txt").write_text("vllm<=0.8.5\n" if installs else "ray\n")
    answer = answer_to(tmp_path / "run.sh", LAUNCH)
    assert ("CFG209" in {finding["code"] for finding in answer["findings"]}) is proposed
