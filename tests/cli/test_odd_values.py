"""Values of a type that their key does not take: found by ``python -m tests.fuzz``, each by what it says."""

import json

import pytest

from tests.cli.runner import RELEASE, run
from tests.inputs.logs import log

JOB = (
    "actor_rollout_ref.model.path=Qwen/Qwen3-8B",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
)
MEGATRON = ("actor_rollout_ref.actor.strategy=megatron", "critic.strategy=megatron")
MODULES = "actor_rollout_ref.actor.megatron.override_transformer_config.recompute_modules"


@pytest.mark.parametrize("value", ["1", "True", "[1]", "{a: 1}"])
def test_modules_are_names(value: str) -> None:
    result = run("advise", *RELEASE, "/dev/null", *JOB, *MEGATRON, f"{MODULES}={value}", "--gpu", "h100-sxm")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"{MODULES}: expected names of modules" in result.err


@pytest.mark.parametrize("value", ["x", "[1]", "{a: 1}", "null"])
def test_what_is_no_number_is_no_staleness(value: str) -> None:
    words = (*JOB, f"async_training.staleness_threshold={value}", "async_training.require_batches=1")
    result = run("check", *RELEASE, "/dev/null", *words, "--gpu", "h100-sxm", "-f", "concise")
    assert result.code == 1, result.err
    assert "async_training.staleness_threshold=" in result.out
    assert "CFG172" in result.out


def test_a_metric_beyond_all_numbers_is_none() -> None:
    metrics = {"timing_s/step": 10.0, "perf/cpu_memory_used_gb": 1e300}
    text = log("0.9.1", JOB, [metrics] * 4)
    result = run("advise", *RELEASE, "-", "--gpu", "h100-sxm", stdin=text)
    assert result.code == 0, result.err


def test_a_progress_bar_within_a_printed_configuration_ends_no_line() -> None:
    text = "(Runner pid=1) {'trainer': {'nnodes': 3,\r 'x': 1}, \r\r'data': {'seed': 1}}\n"
    result = run("config", "-", stdin=text)
    assert result.code == 0, result.err
    assert "trainer.nnodes=3" in result.out


@pytest.mark.parametrize("form", ["text", "yaml", "json", "overrides"])
def test_a_section_is_no_name_in_an_interpolation(form: str) -> None:
    word = "a.b='${${actor_rollout_ref.actor}}'"
    result = run("config", "/dev/null", *JOB, word, "--output-format", form)
    assert result.code == 0, result.err
    assert "${${actor_rollout_ref.actor}}" in result.out


def test_an_error_of_an_engine_in_a_job_that_generates_nothing() -> None:
    message = (
        '  File "/verl/workers/actor.py", line 748, in wake_up\n'
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 4234.67 MiB"
    )
    result = run("explain-oom", f"--message={message}", "/dev/null", "model.path=Qwen/Qwen3-8B")
    assert result.code == 0, result.err


def test_a_token_that_is_glued_to_a_word_is_hidden() -> None:
    token = "hf_" + "aB3" * 11
    result = run("advise", *RELEASE, "/dev/null", *JOB, f"actor_rollout_ref.actor.strategy=sglang{token}")
    assert result.code == 2
    assert token not in result.out + result.err


@pytest.mark.parametrize("value", ["True", "'True'", "yes", "1", "on"])
def test_what_the_trainer_takes_for_true_is_true(value: str) -> None:
    words = [*JOB, f"actor_rollout_ref.actor.fsdp_config.param_offload={value}"]
    result = run("advise", *RELEASE, *words, "--gpu", "h100-sxm", "--output-format", "json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["workload"]["actor"]["engine"]["param_offload"] is True


@pytest.mark.parametrize("value", ["'False'", "no", "off", "Flase"])
def test_text_that_reads_as_false_and_counts_as_true_is_an_error(value: str) -> None:
    words = [*JOB, f"actor_rollout_ref.actor.fsdp_config.param_offload={value}"]
    result = run("advise", *RELEASE, *words, "--gpu", "h100-sxm")
    assert result.code == 2
    assert "expected true or false, without quotes" in result.err
