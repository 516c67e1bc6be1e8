"""A launch whose configuration rests on nothing stops at the first key of verl's own that it lacks."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

FILE = """{defaults}algorithm:
  adv_estimator: grpo
data:
  train_batch_size: 128
actor_rollout_ref:
  model:
    path: Qwen/Qwen2.5-7B-Instruct
  actor:
    ppo_mini_batch_size: 64
    ppo_micro_batch_size_per_gpu: 2
  rollout:
    name: vllm
    n: 4
trainer:
  n_gpus_per_node: 8
"""
ON_VERL = "defaults:\n  - ppo_trainer\n  - _self_\n"
LAUNCH = """HERE="$(cd "$(dirname "$0")" && pwd)"
python3 -m verl.trainer.main_ppo --config-path "$HERE/configs" --config-name house {more}
"""


def findings(folder: Path, version: str, *, defaults: str = "", more: str = "") -> dict[str, dict[str, Any]]:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "configs").mkdir(exist_ok=True)
    (folder / "configs" / "house.yaml").write_text(FILE.format(defaults=defaults))
    (folder / "run.sh").write_text(LAUNCH.format(more=more))
    answer = run(
        "check", str(folder / "run.sh"), "--gpu", "h100-sxm", "--verl-version", version, "-f", "json"
    )
    return {finding["code"]: finding for finding in json.loads(answer.out)["findings"]}


@pytest.mark.parametrize(
    ("version", "key"), [("0.5.0", "ray_init"), ("0.7.0", "ray_kwargs"), ("0.9.1", "reward")]
)
def test_the_first_section_that_the_program_reads_is_missing(version: str, key: str, tmp_path: Path) -> None:
    told = findings(tmp_path, version)
    assert f"reads {key}, " in told["CFG202"]["message"]
    assert told["CFG202"]["severity"] == "error"
    assert "hydra.searchpath" in told["CFG202"]["message"]
    assert all(it.startswith("+") for it in told["CFG104"]["overrides"])  # Hydra refuses them without


def test_a_file_with_a_list_or_the_section_lacks_nothing(tmp_path: Path) -> None:
    assert "CFG202" not in findings(tmp_path, "0.7.0", defaults=ON_VERL)
    assert "CFG202" not in findings(tmp_path, "0.7.0", more="+ray_kwargs.ray_init.num_cpus=8")
