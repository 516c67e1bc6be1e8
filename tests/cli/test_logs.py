"""The log of a run as input: what is taken from it, and what it shows beside the model."""

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest
import yaml

from tests.cli.runner import run
from tests.inputs.logs import TIMED as METRICS
from tests.inputs.logs import by_ray, log
from tests.trainers.launches import ACTOR, DYNAMIC, ROLLOUT
from tuner.inputs.tree import merged, nested, split_key
from tuner.render.schemas import schema
from tuner.units import GIB

pytestmark = pytest.mark.sampled(12)

GPU = ("--gpu", "h100-sxm")
JOB = (*DYNAMIC, "trainer.n_gpus_per_node=8")


def steps(count: int = 6, **changed: float) -> list[dict[str, float]]:
    metrics = METRICS | {name.replace("__", "/"): value for name, value in changed.items()}
    warming_up = metrics | {"timing_s/gen": 600.0, "timing_s/step": 900.0}
    return [warming_up, *([metrics] * (count - 1))]


@cache
def advised(text: str, *words: str, code: int = 0) -> dict[str, Any]:
    result = run("advise", "-", *words, *GPU, "-f", "json", stdin=text)
    assert result.code == code, result.err
    report: dict[str, Any] = json.loads(result.out)
    return report


def phases(report: dict[str, Any]) -> dict[str, tuple[float | None, float | None]]:
    rows = report["log"]["observed"]["phases"]
    return {row["phase"]: (row["observed_seconds"], row["modelled_seconds"]) for row in rows}


@pytest.mark.parametrize("version", ["0.4.1", "0.7.1", "0.9.1"])
def test_the_printed_configuration_is_the_base(version: str) -> None:
    report = advised(log(version, JOB, steps()))
    assert report["premises"]["release"] == version
    assert report["workload"]["batch"]["prompts"] == 512
    assert report["premises"]["settings"]
    for setting in report["premises"]["settings"]:
        assert setting["location"]["source"] == "-"
        assert setting["location"]["line"] > 1


def test_lengths_come_from_the_run_and_options_win() -> None:
    text = log("0.5.0", JOB, steps())
    lengths = advised(text)["workload"]["batch"]["lengths"]
    assert (lengths["mean_prompt"], lengths["mean_response"], lengths["response_p95"]) == (180, 700, None)
    report = advised(text, "--mean-response-length", "900")
    assert report["workload"]["batch"]["lengths"]["mean_response"] == 900
    assert report["log"]["lengths"] == ["mean_prompt", "response_max"]
    said = run("advise", "-", *GPU, stdin=text).out
    assert "mean prompt 180 (the run), mean response 700 (the run)" in said


@pytest.mark.parametrize(
    ("changed", "p95"),
    [
        ({"response_length__clip_ratio": 0.08}, 3072),
        ({"response_length__max": 1000.0}, 1000),
        ({"response_length__max": 2000.0}, None),  # not below what the mean lets expect
    ],
)
def test_the_tail_comes_from_the_run(changed: dict[str, float], p95: int | None) -> None:
    report = advised(log("0.5.0", JOB, steps(**changed)))
    assert report["workload"]["batch"]["lengths"]["response_p95"] == p95


def test_what_the_slowest_response_waited_for_tools_comes_from_the_run() -> None:
    timers = {f"timing_s__agent_loop__slowest__{name}": 40.0 for name in ("tool_calls", "generate_sequences")}
    waited = advised(log("0.7.1", JOB, steps(**timers)))
    assert waited["workload"]["batch"]["lengths"]["tool_seconds"] == 40
    assert "tool_seconds" in waited["log"]["lengths"]
    none = advised(log("0.7.1", JOB, steps(timing_s__agent_loop__slowest__tool_calls=0.0)))
    assert none["workload"]["batch"]["lengths"]["tool_seconds"] is None


def test_the_turns_of_a_response_come_from_the_run() -> None:
    """A turn of the model has a message before it, the first one the prompt."""
    report = advised(log("0.7.1", JOB, steps(num_turns__mean=7.0)))
    assert report["workload"]["batch"]["lengths"]["turns"] == 3.5
    assert report["workload"]["batch"]["conversation"]["turns"] == 3.5
    assert "turns" in report["log"]["lengths"]
    said = run("advise", "-", *GPU, stdin=log("0.7.1", JOB, steps(num_turns__mean=7.0))).out
    assert "3.5 turns a response (the run)" in " ".join(said.split())
    one = advised(log("0.7.1", JOB, steps(num_turns__mean=2.0)))
    assert one["workload"]["batch"]["conversation"] is None
    assert "turns" not in one["log"]["lengths"]


def test_the_seconds_of_a_checkpoint_stand_beside_the_modelled_ones() -> None:
    saved = log("0.7.1", (*JOB, "trainer.save_freq=1"), steps(timing_s__save_checkpoint=50.0))
    observed, modelled = phases(advised(saved))["save_checkpoint"]
    assert observed == 50.0 and modelled is not None


def test_lengths_of_another_job_are_left_alone() -> None:
    report = advised(log("0.5.0", JOB, steps()), "data.max_response_length=512")
    assert report["workload"]["batch"]["lengths"]["mean_response"] is None


def test_the_first_step_is_warming_up() -> None:
    report = advised(log("0.5.0", JOB, steps()))
    observed = report["log"]["observed"]
    assert (observed["first_step"], observed["last_step"], observed["steps"]) == (2, 6, 5)
    assert phases(report)["rollout"][0] == 60.0
    assert advised(log("0.5.0", JOB, steps(2)))["log"]["observed"]["steps"] == 2


def test_seconds_stand_beside_the_modelled_ones() -> None:
    report = advised(log("0.5.0", JOB, steps()))
    modelled = {time["phase"]: time["seconds"] for time in report["time"]}
    rows = phases(report)
    assert {phase: row[1] for phase, row in rows.items() if row[1] is not None} == modelled
    jsonschema.validate(report, schema("report"))
    assert rows["update_actor"][0] == 33.0
    assert rows["reward"] == (5.0, None)
    with_sync = advised(log("0.5.0", JOB, steps(timing_s__reshard=4.0)))
    assert phases(with_sync)["rollout"][0] == 56.0
    assert phases(with_sync)["update_weights"][0] == 4.0


@pytest.mark.parametrize(
    ("version", "held"), [("0.5.0", True), ("0.7.0", True), ("0.7.1", False), ("0.9.1", False)]
)
def test_the_metric_of_memory_holds_a_sleeping_engine_where_it_shares_the_process(
    version: str, held: bool
) -> None:
    report = advised(log(version, JOB, steps()))
    memory = report["log"]["observed"]["memory"]
    assert memory["holds_engine"] is held
    assert memory["allocated_bytes"] == 60 * GIB
    rollout = report["rollout"]
    engine = rollout["weight_bytes"] + rollout["kv_bytes"] if held else 0
    trainer = max(phase["allocated_bytes"] for phase in report["memory"]["phases"])
    assert memory["modelled_bytes"] == engine + trainer


def test_sglang_runs_in_processes_of_its_own() -> None:
    report = advised(log("0.5.0", [*JOB, f"{ROLLOUT}.name=sglang"], steps()))
    assert report["log"]["observed"]["memory"]["holds_engine"] is False


def test_since_0_8_the_name_begins_with_the_actor() -> None:
    metrics = {
        f"actor/{name}" if name.startswith("perf/max") else name: value for name, value in METRICS.items()
    }
    memory = advised(log("0.9.1", JOB, [metrics] * 3))["log"]["observed"]["memory"]
    assert (memory["allocated_bytes"], memory["reserved_bytes"]) == (60 * GIB, 66 * GIB)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("changed", "sign"),
    [
        ({}, "longest"),
        ({"timing_s__gen": 600.0, "timing_s__step": 700.0}, "slower"),
        ({"timing_s__reward": 60.0, "timing_s__step": 150.0}, "uncounted"),
        ({"timing_s__agent_loop/num_preempted/mean": 0.4}, "preempting"),
        ({"response_length__mean": 40.0, "prompt_length__mean": 30.0}, "cache_idle"),
        ({"response_length__clip_ratio": 0.2}, "cut_responses"),
        ({"perf__max_memory_allocated_gb": 78.0}, "more_memory"),
    ],
)
def test_signs(changed: dict[str, float], sign: str) -> None:
    usual = {"perf__max_memory_allocated_gb": 40.0, "timing_s__gen": 40.0, "timing_s__step": 95.0}
    plain = advised(log("0.7.1", JOB, steps(**usual)))
    shown = advised(log("0.7.1", JOB, steps(**usual | changed)))
    found = [one["sign"] for one in shown["log"]["observed"]["signs"]]
    assert sign in found
    if changed:
        assert sign not in [one["sign"] for one in plain["log"]["observed"]["signs"]]
    keys = {key for one in shown["log"]["observed"]["signs"] if one["sign"] == sign for key in one["keys"]}
    if sign in ("preempting", "cache_idle"):
        assert f"{ROLLOUT}.gpu_memory_utilization" in keys
    if sign == "cut_responses":
        assert keys == {"data.max_response_length"}


def test_preemptions_that_are_not_known_are_no_sign() -> None:
    changed = {"timing_s__agent_loop/num_preempted/mean": -1.0}
    assert advised(log("0.9.1", JOB, steps(**changed)))["log"]["observed"]["preemptions"] is None


def test_what_refuses_a_launch_whose_steps_are_in_the_log_says_so() -> None:
    refused = (*JOB, f"{ROLLOUT}.max_num_batched_tokens=1024")

    def refusals(text: str) -> list[str]:
        report = advised(text)
        assert report["verdict"] == "will_not_start"
        return [one["message"] for one in report["findings"] if one["refuses"]]

    not_run, ran, once = (refusals(log("0.5.0", refused, metrics)) for metrics in ((), steps(6), steps(1)))
    assert not_run
    assert all("the log shows" not in message for message in not_run)
    assert [message.split("; yet the log shows 6 steps: ")[0] for message in ran] == not_run
    assert [message.split("; yet the log shows 1 step: ")[0] for message in once] == not_run
    text = " ".join(run("advise", "-", *GPU, stdin=log("0.5.0", refused, steps())).out.split())
    assert "yet the log shows 6 steps: what ran was another release" in text


def test_the_text_names_the_error_and_how_to_explain_it(tmp_path: Path) -> None:
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 13.91 GiB."
    file = tmp_path / "run.log"
    file.write_text(log("0.5.0", JOB, tail=by_ray(said, "WorkerDict pid=1")))
    out = " ".join(run("advise", str(file), *GPU).out.split())
    assert out.startswith("RAN OUT before any step ended (line ")
    assert "13.91 GiB were asked for" in out
    explained = run("explain-oom", str(file), "--message", str(file), *GPU)
    assert explained.code == 0, explained.err
    assert "13.91 GiB" in explained.out


def test_check_config_and_diff_take_a_log(tmp_path: Path) -> None:
    file = tmp_path / "anything.txt"
    file.write_text(log("0.5.0", JOB, steps()))
    assert "1 file checked" in run("check", str(file), *GPU).err
    overrides = run("config", str(file), "-f", "overrides").out
    assert {line.rstrip(" \\") for line in overrides.splitlines() if line} == {
        text for text in JOB if text not in ("trainer.n_gpus_per_node=8", f"{ROLLOUT}.name=vllm")
    }
    other = tmp_path / "other.log"
    other.write_text(log("0.5.0", [*JOB, f"{ROLLOUT}.n=16"], steps()))
    result = run("diff", str(file), str(other), *GPU)
    assert result.code == 0, result.err
    assert f"{ROLLOUT}.n" in result.out


def test_a_log_without_a_configuration_says_what_to_give() -> None:
    result = run("advise", "-", *GPU, stdin="step:1 - timing_s/gen:1.0\n")
    assert result.code == 2
    assert "the log holds no configuration" in result.err
    assert "Traceback" not in result.err


def test_how_the_job_was_started_serves_where_nothing_was_printed() -> None:
    failed = f"Error executing job with overrides: {list(JOB)!r}\nTraceback (most recent call last):\n"
    echoed = "+ python3 -m verl.trainer.main_ppo " + " ".join(JOB) + "\n"
    for text in (failed, echoed):
        report = advised(text, "--verl-version", "0.7.1")
        assert report["workload"]["batch"]["prompts"] == 512
        assert {setting["location"]["line"] for setting in report["premises"]["settings"]} == {1}


def test_a_command_is_read_from_a_report_with_some_steps() -> None:
    words = " \\\n    ".join(["python3 -m verl.trainer.main_ppo", *JOB])
    step = "step:3 - timing_s/gen:61.0 - timing_s/step:118.0"
    report = advised(f"Our settings:\n\n{words} 2>&1 | tee $log\n\n{step}\n", "--verl-version", "0.7.1")
    assert report["workload"]["batch"]["prompts"] == 512
    assert phases(report)["rollout"][0] == 61.0
    lines = [setting["location"]["line"] for setting in report["premises"]["settings"]]
    assert set(lines) <= set(range(4, 4 + len(JOB)))


def test_secrets_of_a_log_are_never_shown(tmp_path: Path) -> None:
    token, key = "hf_" + "q" * 30, "0123456789abcdef" * 2
    text = log("0.5.0", [*JOB, f"+trainer.hf_token={token}", f"+trainer.wandb_api_key={key}"], steps())
    text += f"export HF_TOKEN={token}\nCUDA out of memory. Tried to allocate 2.00 GiB. {token}\n"
    for command in (("advise", "-f", "json"), ("advise", "--full"), ("check",), ("config", "--all")):
        words = GPU if command[0] != "config" else ()
        result = run(command[0], "-", *command[1:], *words, stdin=text)
        assert result.code in (0, 1), result.err
        assert token not in result.out + result.err
        assert key not in result.out + result.err


VALUES: dict[str, tuple[object, ...]] = {
    f"{ROLLOUT}.gpu_memory_utilization": (0.3, 0.6, 0.85),
    f"{ROLLOUT}.tensor_model_parallel_size": (1, 4),
    f"{ROLLOUT}.n": (4, 16),
    f"{ROLLOUT}.enforce_eager": (True,),
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": (2, 64),
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": (1, 16),
    f"{ACTOR}.entropy_coeff": (0.01,),
    f"{ACTOR}.ppo_max_token_len_per_gpu": (8192, 40960),
    f"{ACTOR}.fsdp_config.param_offload": (True,),
    f"{ACTOR}.strategy": ("fsdp2",),
    f"{ACTOR}.use_dynamic_bsz": (True,),
    "actor_rollout_ref.model.use_remove_padding": (True,),
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": (4,),
    "actor_rollout_ref.model.path": ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-14B"),
    "algorithm.adv_estimator": ("grpo", "rloo"),
    "data.train_batch_size": (256, 512),
    "data.max_response_length": (2048, 8192),
    "trainer.save_freq": (20,),
}
_ALWAYS = ("actor_rollout_ref.model.path", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu")


def settings(seed: int) -> dict[str, object]:
    random = Random(seed)
    return {
        key: random.choice(values)
        for key, values in VALUES.items()
        if key in _ALWAYS or random.random() < 0.5
    } | {f"{ROLLOUT}.name": "vllm"}


def findings(path: str, version: str, stdin: str = "") -> list[tuple[object, ...]]:
    result = run("check", path, "--verl-version", version, *GPU, "-f", "json", stdin=stdin)
    assert result.code in (0, 1), result.err
    found = json.loads(result.out)["findings"]
    return sorted((one["code"], one["severity"], one["message"], tuple(one["overrides"])) for one in found)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(24))
def test_the_same_settings_have_the_same_findings_in_every_form(seed: int, tmp_path: Path) -> None:
    version = ("0.5.0", "0.7.1", "0.9.1")[seed % 3]
    given = settings(seed)
    if version == "0.5.0":
        del given[f"{ROLLOUT}.name"]  # its default, which a log does not tell from what was set
    words = [f"{key}={value}" for key, value in given.items()]
    tree: dict[str, Any] = {}
    for key, value in given.items():
        tree = merged(tree, nested(split_key(key), value))
    script = "#!/bin/bash\npython3 -m verl.trainer.main_ppo \\\n    " + " \\\n    ".join(words) + "\n"
    forms = {"a.yaml": yaml.safe_dump(tree), "a.sh": script, "a.log": log(version, words)}
    answers = {}
    for name, text in forms.items():
        (tmp_path / name).write_text(text)
        answers[name] = findings(str(tmp_path / name), version)
        answers[f"{name} on standard input"] = findings("-", version, stdin=text)
    result = run("check", *words, "--verl-version", version, *GPU, "-f", "json")
    answers["overrides"] = sorted(
        (one["code"], one["severity"], one["message"], tuple(one["overrides"]))
        for one in json.loads(result.out)["findings"]
    )
    first = answers["a.sh"]
    for name, answer in answers.items():
        assert answer == first, name


VLLM = "WorkerDict pid=2512, ip=10.0.0.7"
ENGINE_LINES = {
    "vllm": (
        "INFO 12-18 09:44:41 [core.py:93] Initializing a V1 LLM engine (v0.9.1) with config: "
        "model='Qwen/Qwen2.5-7B', dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=1",
        "INFO 12-18 09:44:57 [gpu_worker.py:276] Available KV cache memory: 9.62 GiB",
        "INFO 12-18 09:44:57 [kv_cache_utils.py:864] GPU KV cache size: 180,160 tokens",
        "INFO 12-18 09:44:57 [kv_cache_utils.py:864] GPU KV cache size: 180,144 tokens",
        "INFO [kv_cache_utils.py:868] Maximum concurrency for 4,096 tokens per request: 43.98x",
    ),
    "early vllm": (
        "INFO 03-02 09:44:57 worker.py:267] the current vLLM instance can use total_gpu_memory; the rest of "
        "the memory reserved for KV Cache is 9.62GiB.",
        "INFO 03-02 09:44:57 executor_base.py:111] # cuda blocks: 11259, # CPU blocks: 2048",
        "INFO 03-02 09:44:57 executor_base.py:116] Maximum concurrency for 4096 tokens per request: 43.98x",
    ),
    "sglang": (
        "[2025-09-01 10:00:00 TP0] KV Cache is allocated. #tokens: 180144, K size: 5.22 GB, V size: 5.22 GB",
        "[2025-09-01 10:00:01 TP0] max_total_num_tokens=180144, chunked_prefill_size=8192, "
        "max_prefill_tokens=16384, max_running_requests=2048, context_len=4096, available_gpu_mem=8.27 GB",
    ),
}


@pytest.mark.parametrize("engine", ENGINE_LINES)
def test_what_the_rollout_engine_printed_stands_beside_the_model(engine: str) -> None:
    lines = "\n".join(by_ray(line, VLLM) for line in ENGINE_LINES[engine])
    text = log("0.5.0", JOB).rstrip("\n") + "\n" + lines + "\n"
    found = advised(text)["log"]["rollout_engine"]
    assert found["kv_cache_tokens"]["observed"] == 180_144
    assert found["longest_sequence_tokens"]["observed"] == 4096
    assert found["longest_sequence_tokens"]["modelled"] == 1024 + 3072
    assert advised(log("0.5.0", JOB))["log"]["rollout_engine"] is None
    said = run("advise", "-", *GPU, stdin=text).out
    assert "The rollout engine started with a KV cache of 180,144 tokens" in said
    if engine != "sglang":
        assert found["kv_cache_bytes"]["observed"] == round(9.62 * GIB)


def test_steps_are_no_start_of_an_engine() -> None:
    text = log("0.5.0", JOB, steps(), tail="GPU KV cache size: 16 tokens")
    assert advised(text)["log"]["rollout_engine"] is None
