"""Which trainer an input is for."""

import pytest

from tests.cli.runner import run
from tuner.inputs.overrides import on_command_line
from tuner.trainers import registry, verl


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (("actor_rollout_ref.model.path=m",), ""),
        (("~actor_rollout_ref.model.path",), "train.py"),
        (("model_engine=megatron",), "train.py"),
        ((), "verl.trainer.main_ppo"),
        ((), "verl/trainer/fsdp_sft_trainer.py"),
        ((), "examples/main_ppo.py"),
    ],
)
def test_a_job_of_verl_is_known_without_looking_for_packages(
    words: tuple[str, ...], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> None:
        raise AssertionError("packages are looked for")

    if program == "examples/main_ppo.py":  # whose name may be anybody's
        assert registry.trainer_of(None, on_command_line(words), program=program) is verl
        return
    monkeypatch.setattr(registry, "added", nobody)
    assert registry.trainer_of(None, on_command_line(words), program=program) is verl


def test_an_override_without_a_key_tells_nothing() -> None:
    assert not verl.recognises(None, on_command_line(["+", "=1", "~"]), program="")
    result = run("check", "-", stdin="python3 recipe/main_dapo.py actor_rollout_ref.path= +\n")
    assert result.code == 2
    assert result.err.startswith("error: ")
