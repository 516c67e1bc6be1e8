"""A release that a project's ``pyproject.toml`` takes from a repository, as uv writes it."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True trainer.n_gpus_per_node=2\n"
)


@pytest.mark.parametrize(
    ("source", "release"),
    [
        ('{ git = "https://host.example/owner/verl.git", rev = "v0.7.0" }', "0.7.0"),
        ('{git = "https://host.example/owner/verl", tag = "v0.6.1"}', "0.6.1"),
        ('{ git = "https://host.example/owner/verl", branch = "main" }', ""),
    ],
)
def test_a_source_of_uv_tells_the_release(source: str, release: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "run.sh").write_text(LAUNCH)
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "ours"\ndependencies = ["verl"]\n\n[tool.uv.sources]\nverl = {source}\n'
    )
    result = run("advise", str(tmp_path / "run.sh"), "--gpu", "h100-sxm", "-f", "json")
    assert result.code == 0, result.err
    read = json.loads(result.out)["workload"]["release"]["version"]
    if release:
        assert read == release
    else:
        assert read not in ("0.7.0", "0.6.1")
