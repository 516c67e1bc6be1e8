"""The list of CUDA graphs that a launch hands to vLLM itself is the one that counts, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

ROLLOUT = "actor_rollout_ref.rollout"
LAUNCH = f"""python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=128 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct {ROLLOUT}.name=vllm trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True {ROLLOUT}.tensor_model_parallel_size=2 {ROLLOUT}.n=4"""
OWN = f"+{ROLLOUT}.engine_kwargs.vllm.compilation_config"


def advice(tmp_path: Path, launch: str, release: str) -> dict[str, Any]:
    script = tmp_path / "run.sh"
    script.write_text(f"{LAUNCH} {launch}")
    answer = run("advise", str(script), "--gpu", "h100-sxm", "--verl-version", release, "-f", "json")
    loaded: dict[str, Any] = json.loads(answer.out)
    return loaded


@pytest.mark.parametrize(
    ("release", "launch", "sizes"),
    [
        ("0.7.1", f'{OWN}.cudagraph_capture_sizes="[8, 16, 64]"', [8, 16, 64]),
        ("0.7.1", f"""'{OWN}="{{\\"cudagraph_capture_sizes\\": [8, 16, 64]}}"'""", [8, 16, 64]),
        ("0.7.1", f"{ROLLOUT}.cudagraph_capture_sizes=[1,2]", [1, 2]),
        ("0.7.1", f"{OWN}.cudagraph_mode=FULL_DECODE_ONLY", None),
        ("0.9.1", f"{OWN}.cudagraph_capture_sizes=[8,16] {ROLLOUT}.cudagraph_capture_sizes=[1,2]", [1, 2]),
    ],
)
def test_the_list_is_read_wherever_it_stands(
    tmp_path: Path, release: str, launch: str, sizes: list[int] | None
) -> None:
    answer = advice(tmp_path, launch, release)
    assert answer["workload"]["rollout"]["capture_sizes"] == sizes
    assert not any("capture_sizes" in part["key"] for part in answer["left_out"])


def test_fewer_graphs_take_less_memory(tmp_path: Path) -> None:
    def peak(launch: str) -> Any:
        phases = advice(tmp_path, launch, "0.7.1")["memory"]["phases"]
        return next(phase["peak_bytes"] for phase in phases if phase["phase"] == "rollout")

    assert peak(f"{OWN}.cudagraph_capture_sizes=[8,16,64]") < peak(f"{OWN}.cudagraph_mode=FULL")
