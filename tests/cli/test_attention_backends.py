"""Attention backends that a script or a configuration asks for, as ``tuner check`` speaks of them."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

JOB = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.actor.use_dynamic_bsz=True"
)
ROLLOUT = "actor_rollout_ref.rollout"


def refused(folder: Path, text: str, *options: str) -> dict[str, int]:
    """The codes of errors with the lines that they stand at."""
    script = folder / "run.sh"
    script.write_text(text)
    words = ("check", str(script), "--gpu", "h100-sxm", "--output-format", "json", *options)
    findings = json.loads(run(*words).out)["findings"]
    return {it["code"]: it["line"] for it in findings if it["severity"] == "error"}


@pytest.mark.parametrize(
    ("version", "engine", "is_refused"),
    [
        ("0.7.1", "0.12.0", True),  # vLLM 0.12.0 attention/backends/registry.py has no XFORMERS
        ("0.6.1", "0.11.0", False),  # 0.11.0 platforms/interface.py has
        ("0.9.1", "0.24.0", False),  # no line of vLLM 0.24.0 reads the variable
    ],
)
def test_a_variable_that_a_script_exports(
    tmp_path: Path, version: str, engine: str, is_refused: bool
) -> None:
    text = f"export VLLM_ATTENTION_BACKEND=XFORMERS\n{JOB} {ROLLOUT}.name=vllm\n"
    found = refused(tmp_path, text, "--verl-version", version, "--engine-version", engine)
    assert ("CFG196" in found) == is_refused
    if is_refused:
        assert found["CFG196"] == 1  # the line of the script


def test_a_variable_for_vllm_says_nothing_of_sglang(tmp_path: Path) -> None:
    text = f"export VLLM_ATTENTION_BACKEND=XFORMERS\n{JOB} {ROLLOUT}.name=sglang\n"
    assert "CFG196" not in refused(tmp_path, text, "--verl-version", "0.7.1")


def test_a_format_of_vllm_s_cache_is_none_of_sglang_s(tmp_path: Path) -> None:
    text = f"{JOB} {ROLLOUT}.name=sglang \\\n  +{ROLLOUT}.engine_kwargs.sglang.kv_cache_dtype=fp8\n"
    assert refused(tmp_path, text, "--verl-version", "0.9.1")["CFG186"] == 2
