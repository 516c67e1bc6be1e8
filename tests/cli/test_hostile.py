"""Values that no job has end in one message and exit code 2, at once."""

from pathlib import Path

import pytest

from tests.cli.runner import run

JOB = (
    "actor_rollout_ref.model.path=Qwen/Qwen3-8B",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "algorithm.adv_estimator=grpo",
)
NINES = "9" * 400


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("actor_rollout_ref.actor.strategy=[fsdp]", "expected the name of a training engine, got ['fsdp']"),
        ("actor_rollout_ref.actor.strategy={a: 1}", "expected the name of a training engine, got a section"),
        ("--host-memory=nan", "--host-memory nan: expected a number"),
        ("--host-memory=inf", "--host-memory inf: expected a number"),
        ("--host-memory=1e308", "--host-memory 1e+308: expected a number"),
        ("--headroom=nan", "--headroom nan: expected a number"),
        (f"data.train_batch_size={NINES}", "holds a larger number than any setting takes"),
        (f"data.max_response_length={NINES * 12}", "holds a larger number than any setting takes"),
        ("data.train_batch_size=1000000000", "1,000,000,000 sequences in a step are not modelled"),
        ("actor_rollout_ref.rollout.n=1000000000", "sequences in a step are not modelled"),
        ("trainer.n_gpus_per_node=1000000000", "a job of 1,000,000,000 GPUs is not modelled"),
        ("data.max_response_length=10000000000", "tokens in a sequence are not modelled"),
    ],
)
def test_a_value_beyond_all_jobs_is_one_message(word: str, message: str) -> None:
    result = run("advise", "/dev/null", *JOB, word, "--gpu", "h100-sxm")
    assert result.code == 2, result.err
    assert message in result.err
    assert result.err.count("\n") == 1
    assert len(result.err) < 400


@pytest.mark.parametrize(
    "text", ['a: !!int ""\n', "a: !!timestamp x\n", "a: " + "${" * 200 + "x" + "}" * 200 + "\n"]
)
def test_yaml_that_is_no_configuration_is_one_message(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    result = run("advise", str(file), "--gpu", "h100-sxm")
    assert result.code == 2
    assert result.err.count("\n") == 1
