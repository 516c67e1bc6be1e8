"""Scripts that are templates: a value that nobody has filled in is left open, and may be given."""

from pathlib import Path

import pytest

from tests.cli.runner import run

SCRIPT = """export BASE_MODEL='{base_model}'
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 \\
    actor_rollout_ref.model.path=$BASE_MODEL actor_rollout_ref.rollout.name=vllm \\
    trainer.experiment_name="{experiment_name}" trainer.n_gpus_per_node=8
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "run.sh"
    file.write_text(SCRIPT)
    return str(file)


def test_a_model_that_is_to_be_filled_in_is_told_as_one(script: str) -> None:
    answer = run("advise", script, "--gpu", "h100-sxm")
    said = " ".join(answer.err.split())
    assert answer.code == 2
    assert "the model is {base_model}: the script is a template with values to put in" in said
    assert "--model NAME" in said


@pytest.mark.parametrize(
    "given",
    [("--model", "Qwen/Qwen2.5-0.5B"), ("actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B",)],
    ids=["option", "override"],
)
def test_a_model_that_is_given_gets_past_it(script: str, given: tuple[str, ...]) -> None:
    answer = run("advise", script, *given, "--gpu", "h100-sxm", "--full")
    assert answer.code == 0, answer.err
    assert "Qwen2.5-0.5B" in answer.out
    assert "trainer.experiment_name is {experiment_name}" in " ".join(answer.out.split())
