"""The torch of a job whose attention pairs rows, by what is around it and by its rollout engine."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.runner import run
from tests.loading import load
from tests.trainers.launches import DYNAMIC, MODEL, PPO, SGLANG, workload_of
from tests.workloads import QWEN25_7B, cluster
from tuner.trainers.verl.read import read
from tuner.workload import Attention

ASKED = f"+{MODEL}.override_config.attn_implementation=sdpa"
CRITIC = "+critic.model.override_config.attn_implementation=sdpa"


@pytest.mark.parametrize(
    ("version", "torch"), [("0.6.1", "2.8.0"), ("0.7.1", "2.9.0"), ("0.9.0", "2.10.0"), ("0.9.1", "2.11.0")]
)
def test_the_vllm_of_a_release_brings_its_torch(version: str, torch: str) -> None:
    assert workload_of((*DYNAMIC, ASKED), version).actor.engine.torch == torch
    assert workload_of(DYNAMIC, version).actor.engine.torch == ""  # where it decides about nothing


@pytest.mark.parametrize(
    ("vllm", "torch"), [("0.8.5", "2.6.0"), ("0.11.0", "2.8.0"), ("0.19.1", "2.10.0"), ("0.7.2", "")]
)
def test_another_vllm_brings_another(vllm: str, torch: str) -> None:
    settings = load(None, (*DYNAMIC, ASKED), version="0.9.1").settings
    workload = read(
        settings,
        version="0.9.1",
        model=QWEN25_7B,
        critic_model=None,
        cluster=cluster(),
        rollout_engine_version=vllm,
    )
    assert workload.actor.engine.torch == torch
    assert workload.reference is not None and workload.reference.engine.torch == torch


def test_other_engines_say_nothing_of_it() -> None:
    assert workload_of((*SGLANG, ASKED), "0.9.1").actor.engine.torch == ""


def test_a_critic_has_it_as_well() -> None:
    critic = workload_of((*PPO, CRITIC), "0.9.1").critic
    assert critic is not None and critic.engine.torch == "2.11.0"


def update_seconds(folder: Path, requires: str) -> float:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "run.sh").write_text(" ".join(("python3 -m verl.trainer.main_ppo", *DYNAMIC, ASKED)))
    (folder / "requirements.txt").write_text(requires)
    asked = ("--gpu", "h100-sxm", "--verl-version", "0.9.1", "-f", "json")
    answer = json.loads(run("advise", str(folder / "run.sh"), *asked).out)
    (phase,) = (one for one in answer["time"] if one["phase"] == "update_actor")
    return float(phase["seconds"])


def test_files_around_a_launch_come_first(tmp_path: Path) -> None:
    newer, older = (update_seconds(tmp_path, f"torch=={torch}\n") for torch in ("2.11.0", "2.8.0"))
    assert newer == update_seconds(tmp_path, "")
    assert newer < older


@pytest.mark.parametrize(
    ("transformers", "window"),
    [("4.48.3", None), ("4.49.0", 4096), ("4.52.4", 4096), ("4.53.0", None), ("4.53.1", None), ("", None)],
)
def test_an_idle_window_makes_masks_under_some_transformers(transformers: str, window: int | None) -> None:
    """Where packed sequences attend to each other, which 4.53.1 keeps them from."""
    settings = load(None, (*DYNAMIC, ASKED), version="0.6.1").settings
    named = {"transformers": transformers or None}
    engine = read(
        replace(settings, newest_required=named.get),
        version="0.6.1",
        model=replace(QWEN25_7B, idle_window=4096),
        critic_model=None,
        cluster=cluster(),
    ).actor.engine
    assert engine.dense_rows == window
    assert (engine.attention is Attention.CAUSAL_ROWS) is (transformers not in ("", "4.53.1"))
