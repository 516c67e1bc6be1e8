"""``tuner explain-oom``: an error as it was printed, with and without the job behind it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.runner import Result, run

pytestmark = pytest.mark.sampled(12)

EXAMPLE = "docs/examples/qwen2.5-7b-grpo.yaml"
JOB = (EXAMPLE, "trainer.n_gpus_per_node=8", "--gpu", "h100-sxm", "--verl-version", "0.9.1")
ROLLOUT = "actor_rollout_ref.rollout"
STACK = """Traceback (most recent call last):
  File "/verl/workers/engine_workers.py", line 644, in compute_log_prob
    output = self.actor.infer_batch(data)
  File "/verl/utils/torch_functional.py", line 231, in entropy_from_logits
    entropy = torch.logsumexp(logits, dim=-1) - torch.sum(pd * logits, dim=-1)
"""
NUMBERS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}. GPU 0 has a total capacity of "
    "79.11 GiB of which {free} is free. Process 7 has {own} memory in use.{other} Of the allocated memory "
    "{held} is allocated by PyTorch, and {unused} is reserved by PyTorch but unallocated."
)


def line(**sizes: str) -> str:
    """PyTorch's message."""
    usual = {
        "size": "18.56 GiB",
        "free": "8.85 GiB",
        "own": "70.25 GiB",
        "held": "66.00 GiB",
        "unused": "1.20 GiB",
    }
    return NUMBERS.format(**(usual | {"other": ""} | sizes))


@cache
def explain(message: str, *arguments: str) -> Result:
    result = run("explain-oom", "--message", "-", *arguments, stdin=message)
    assert result.code == 0, result.err
    return result


def text(message: str, *arguments: str) -> str:
    return " ".join(explain(message, *arguments).out.split())


def report(message: str, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(explain(message, "-f", "json", *arguments).out)
    return found


LARGE = (f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=32",)


def test_phase_tensor_setting_and_price_of_a_message_with_its_stack() -> None:
    said = text(STACK + line(), *JOB, *LARGE)
    assert said.startswith("Out of GPU memory in old_log_prob: 18.56 GiB were asked for, 8.8 GiB were free.")
    assert (
        "entropy, cross entropy or softmax of the logits (entropy_from_logits, torch_functional.py:231)"
        in said
    )
    assert "32,768 tokens x 152,064 vocabulary entries x 4 bytes" in said
    assert f"set by {ROLLOUT}.log_prob_micro_batch_size_per_gpu=32." in said
    assert "forward-budget-too-large: old_log_prob" in said


def test_without_a_job_the_error_alone_is_explained() -> None:
    said = text(STACK + line())
    assert "18.56 GiB are 4,982 million entries in float32" in said
    assert f"{ROLLOUT}.log_prob_max_token_len_per_gpu" in said
    assert "Give the job's script or configuration in front of --message; or at least --model NAME" in said
    named = text(STACK + line(), "--model", "qwen2.5-7b")
    assert "32,768 tokens x 152,064 vocabulary entries x 4 bytes" in named
    assert "--model NAME" not in named


def test_a_job_may_be_pasted_overrides_a_file_or_a_script(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\\n"
        "  actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\\n"
        f"  {ROLLOUT}.name=vllm {ROLLOUT}.log_prob_micro_batch_size_per_gpu=32\n"
    )
    file = tmp_path / "error.txt"
    file.write_text(STACK + line())
    pasted = script.read_text().replace("\\\n", "").split()
    options = ("--message", str(file), "--gpu", "h100-sxm", "--verl-version", "0.9.1")
    from_script = run("explain-oom", str(script), *options)
    from_words = run("explain-oom", *options, "--", *pasted)
    assert (from_script.code, from_words.code) == (0, 0), from_script.err + from_words.err
    assert from_script.out == from_words.out
    assert "old_log_prob" in from_script.out


def test_prices_are_those_of_the_model() -> None:
    """What a remedy is said to leave is what advise counts with its overrides."""
    found = report(STACK + line(), *JOB, *LARGE)
    assert found["remedies"]
    for remedy in found["remedies"]:
        again = json.loads(run("advise", *JOB, *LARGE, *remedy["overrides"], "-f", "json").out)
        peaks = {phase["phase"]: phase["peak_bytes"] for phase in again["memory"]["phases"]}
        assert peaks[remedy["phase"]] == remedy["after_bytes"] < remedy["before_bytes"]
        assert remedy["enough"] is (remedy["after_bytes"] <= found["need"]["limit_bytes"])


def test_a_job_that_fits_by_the_model_needs_what_the_message_says_was_missing() -> None:
    found = report(STACK + line(size="2.00 GiB", free="1.00 GiB", unused="0.10 GiB"), *JOB)
    standing, need = found["standing"], found["need"]
    assert (standing["agreement"], standing["phase"]) == ("contradicts", "old_log_prob")
    missing = standing["peak_bytes"] - need["limit_bytes"]
    assert 0.98 * 2**30 < missing < 1.02 * 2**30
    assert any(remedy["enough"] for remedy in found["remedies"])


def test_another_process_on_the_card_is_named_by_the_messages_numbers() -> None:
    other = line(
        own="30.25 GiB", other=" Process 55 has 40.00 GiB memory in use.", held="24.00 GiB", free="8.86 GiB"
    )
    card = report(STACK + other, *JOB)["card"]
    assert [(process["number"], process["bytes"]) for process in card["others"]] == [(55, 40 * 2**30)]
    assert card["strange_bytes"] > 10 * 2**30
    assert "Something else is on the card" in text(STACK + other, *JOB)
    assert "process 55 with 40.0 GiB" in text(STACK + other, *JOB)


def test_fragments_and_a_larger_job_are_told_from_it() -> None:
    broken = line(size="3.00 GiB", free="1.00 GiB", unused="9.00 GiB", held="50.00 GiB")
    found = report(STACK + broken, *JOB)["card"]
    assert (found["fragmented"], found["fuller"]) == (True, True)
    whole = report(STACK + line(size="12.00 GiB", held="1.00 GiB", own="3.00 GiB", free="9.00 GiB"), *JOB)[
        "card"
    ]
    assert (whole["fragmented"], whole["fuller"]) == (False, False)
    said = text(STACK + broken, *JOB)
    assert "expandable_segments:True" in said
    assert "the job was set otherwise than this configuration, or something grows" in said


def test_a_card_of_another_size_asks_for_its_name() -> None:
    said = text(STACK + line(), EXAMPLE, "--gpu", "a100-40g", "--verl-version", "0.9.1")
    assert "The card has 79.1 GiB, another size than the one judged for: give --gpu." in said


NO_CACHE = "No available memory for the cache blocks."
NOT_FREE = (
    "Free memory on device (55.01/79.10 GiB) on startup is less than desired GPU memory utilization (0.9, "
    "71.19 GiB)."
)
SHORT = (
    "To serve at least one request with the model's max seq len (40960), (24.0 GiB KV cache is needed, which "
    "is larger than the available KV cache memory (3.18 GiB)."
)
START = {
    NO_CACHE: ("a smaller share makes it worse", "kv-cache-too-small", "cache"),
    NOT_FREE: ("a share of 0.69 was free", "rollout-fraction-too-large", "peak"),
    SHORT: ("24.00 GiB are needed, 3.18 there", "kv-cache-too-small", "room"),
}


@pytest.mark.parametrize("message", START)
def test_an_engine_that_does_not_start(message: str) -> None:
    part, rule, measure = START[message]
    arguments = (*JOB, f"{ROLLOUT}.gpu_memory_utilization=0.9" if measure == "peak" else f"{ROLLOUT}.n=8")
    assert part in text(f"ValueError: {message}", *arguments)
    found = report(f"ValueError: {message}", *arguments)
    assert found["place"]["before_steps"]
    assert found["need"]["measure"] == measure
    remedy = next(remedy for remedy in found["remedies"] if remedy["name"] == rule)
    assert remedy["enough"]
    if measure == "peak":
        assert f"{ROLLOUT}.gpu_memory_utilization=0.69" in remedy["overrides"]
    else:
        assert remedy["after_bytes"] >= found["need"]["limit_bytes"]


def test_a_message_of_another_configuration_is_noticed() -> None:
    said = text(NOT_FREE, *JOB)
    assert "The error is of a share of 0.9, and this configuration has 0.3." in said


def test_the_engine_that_wakes_up() -> None:
    found = report("CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62", *JOB)
    assert found["place"]["phases"] == ["update_weights", "wake_up"]
    assert found["need"]["known"] is False
    names = {remedy["name"] for remedy in found["remedies"]}
    assert {"rollout-fraction-too-large", "optimizer-offload"} <= names
    assert not any(remedy["enough"] for remedy in found["remedies"])


def test_memory_of_a_node_is_not_that_of_a_gpu() -> None:
    message = (
        "Task was killed due to the node running low on memory.\nMemory on the node (IP: 1) was 190GB / 200GB"
    )
    found = report(message, *JOB, "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True")
    assert (found["error"]["kind"], found["error"]["figures"]) == (
        "host",
        {"used_gib": 190, "total_gib": 200},
    )
    assert found["standing"] is None
    assert found["host_bytes"] > 0
    assert all(remedy["measure"] == "host" for remedy in found["remedies"])


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "message", [STACK + line(), "CUDA error: out of memory", *START, "SIGKILL by OOM killer"]
)
def test_the_json_has_its_schema_and_the_text_80_columns(message: str) -> None:
    schema = json.loads(run("schema", "explanation").out)
    for arguments in ((), (*JOB, *LARGE)):
        jsonschema.validate(report(message, *arguments), schema)
        prose = [row for row in explain(message, *arguments).out.splitlines() if "=" not in row]
        assert max(map(len, prose)) <= 80


def test_nothing_that_is_secret_is_printed() -> None:
    token = "hf_" + "a" * 34
    stack = STACK.replace("output = self.actor.infer_batch(data)", f'login(HF_TOKEN="{token}")')
    for options in ((), ("-f", "json")):
        assert token not in explain(f"HF_TOKEN={token}\n{stack}{line()} HF_TOKEN={token}", *options).out


def test_a_text_without_an_error_says_what_was_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    file.write_text("step 1\nstep 2\n")
    result = run("explain-oom", "--message", str(file))
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith(
        f"error: {file}: nothing in it says that memory ran out; looked for: CUDA out of memory"
    )


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"CUDA out of memory\0", "binary"), (b"", "nothing in it"), (b"\xff\xfe" * 9, "nothing in it")],
)
def test_a_file_that_is_no_error_is_one_message(content: bytes, part: str, tmp_path: Path) -> None:
    file = tmp_path / "error"
    file.write_bytes(content)
    result = run("explain-oom", "--message", str(file))
    assert (result.code, result.out) == (2, "")
    assert part in result.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--message", "no-such-file"), "there is no such file"),
        (("--message", "."), "is a directory"),
        (("--message", "-", "-"), "cannot both come from standard input"),
        (("--message", "/dev/zero"), "larger than the limit"),
        ((EXAMPLE, "--mesage", "x", "--message", "-"), "did you mean --message"),
    ],
)
def test_arguments_that_cannot_be_used_are_one_message(arguments: tuple[str, ...], part: str) -> None:
    result = run("explain-oom", *arguments, stdin=line())
    assert (result.code, result.out) == (2, "")
    assert part in result.err


def test_the_line_itself_may_stand_behind_the_option() -> None:
    assert run("explain-oom", "--message", line()).out == explain(line()).out


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_file_that_is_named_like_a_key_is_not_shown_by_that_name(form: str) -> None:
    """The folder of a snapshot keeps its hash, of which the code of a model is loaded."""
    key, snapshot = "081b9c84b99b94f09fc438323b91f15237801a76", "0a" * 20
    stack = f"""  File "/hf/snapshots/{snapshot}/{key}.py", line 3, in load_model
    load_model(data)
ValueError: No available memory for the cache blocks. Try increasing
"""
    shown = explain(stack, "-f", form).out
    assert key not in shown
    assert "hidden.py" in shown
    assert form == "text" or snapshot in shown
