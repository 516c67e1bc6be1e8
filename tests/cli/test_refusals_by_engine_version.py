"""A refusal that hangs on the version of an engine: a warning where that is only assumed."""

import json
from typing import Any

import pytest

from tests.cli.runner import run

ROLLOUT = "actor_rollout_ref.rollout"
JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.model.use_remove_padding=True",
    "data.max_prompt_length=2048",
    "data.max_response_length=8192",
    "trainer.n_gpus_per_node=8",
    f"{ROLLOUT}.name=vllm",
    f"{ROLLOUT}.mode=sync",
    f"{ROLLOUT}.tensor_model_parallel_size=1",
    f"{ROLLOUT}.enable_chunked_prefill=False",
)


def codes(*given: str) -> dict[str, Any]:
    card = ("--gpu", "h100-sxm", "-f", "json")
    report = json.loads(run("advise", "/dev/null", *card, *given, "--", *JOB).out)
    return {"verdict": report["verdict"], **{item["code"]: item for item in report["findings"]}}


@pytest.mark.parametrize(
    ("release", "version", "speaks"),
    [("0.6.1", "0.11.0", False), ("0.6.1", "0.12.0", True), ("0.5.0", "0.7.3", True)],
)
def test_a_named_engine_that_takes_prompts_whole_refuses_few_tokens(
    release: str, version: str, speaks: bool
) -> None:
    """verl 0.6.1 ``vllm_rollout_spmd.py:195`` refuses so few tokens with chunks on: no fix ends there."""
    found = codes("--verl-version", release, "--engine-version", version)
    assert ("ROL013" in found) is speaks
    assert (found["verdict"] == "will_not_start") is speaks
    assert "CFG130" not in found
    if speaks:
        chunks, budget = f"{ROLLOUT}.enable_chunked_prefill=True", f"{ROLLOUT}.max_num_batched_tokens=10240"
        assert set(found["ROL013"]["overrides"]) == {chunks, budget}


@pytest.mark.parametrize(("asks", "refused"), [("<=0.12.0", False), ("==0.12.0", True)])
def test_an_engine_that_is_only_assumed_refuses_nothing(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, asks: str, refused: bool
) -> None:
    """vLLM 0.8.0 to 0.11.0 ``engine/arg_utils.py`` chunk whatever they are asked."""
    (tmp_path / "verl" / "trainer").mkdir(parents=True)
    for file in ("verl/__init__.py", "verl/trainer/__init__.py"):
        (tmp_path / file).write_text("")
    (tmp_path / "verl" / "trainer" / "main_ppo.py").write_text(
        "budget = config.get('max_num_batched_tokens')\nchunked = config.get('enable_chunked_prefill')\n"
    )
    (tmp_path / "requirements.txt").write_text(f"vllm{asks}\n")
    (tmp_path / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo {' '.join(JOB)}\n")
    monkeypatch.chdir(tmp_path)
    given = ("--gpu", "h100-sxm", "--verl-version", "0.6.1", "-f", "json")
    report = json.loads(run("advise", "run.sh", *given).out)
    (found,) = (item for item in report["findings"] if item["code"] == "ROL013")
    assert (report["verdict"] == "will_not_start") is refused
    assert (found["severity"] == "error") is refused
    assert ("0.12.0, which is assumed" in found["message"]) is not refused
