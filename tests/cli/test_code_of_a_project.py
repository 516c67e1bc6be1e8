"""Workers, rollout and trainer of a project outside of verl count in place of a release's."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

ROLLOUT = "actor_rollout_ref.rollout"
LAUNCH = (
    "python3 -m agent.src.main_agent algorithm.adv_estimator=grpo data.train_batch_size=64 "
    f"actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct {ROLLOUT}.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True trainer.n_gpus_per_node=8 {more}\n"
)
MAIN = """from .agent_ray_trainer import AgentTrainer


def main(config):
    from .agent_fsdp_workers import ActorRolloutRefWorker

    AgentTrainer(config, ActorRolloutRefWorker).fit()
"""
TRAINER = """class AgentTrainer:
    def fit(self):
        for batch in self.loader:
            batch = batch.repeat(repeat_times=self.config.actor_rollout_ref.rollout.n_repeat, interleave=True)
"""
WORKER = """from verl.single_controller.base import Worker


class ActorRolloutRefWorker(Worker):
    def _build_rollout(self):
        {takes}
        if rollout_mode == "spmd":
            from .vllm_rollout_spmd import Rollout
"""
PLAIN = "config = self.config.rollout"
MAKES = "config = omega_conf_to_dataclass(self.config.rollout)"
ENGINE = """class Rollout:
    def __init__(self, config):
        {asserts}
        load_format = "dummy" if config.load_format.startswith("dummy") else config.load_format
        self.engine = LLM(load_format=load_format, enforce_eager=config.enforce_eager)
"""


def advised(
    folder: Path, more: str, *, worker: str = WORKER.format(takes=PLAIN), asserts: str = "pass", release: str
) -> dict[str, Any]:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "agent" / "src").mkdir(parents=True, exist_ok=True)
    files = {
        "main_agent": MAIN,
        "agent_ray_trainer": TRAINER,
        "agent_fsdp_workers": worker,
        "vllm_rollout_spmd": ENGINE.format(asserts=asserts),
    }
    for name, text in files.items():
        (folder / "agent" / "src" / f"{name}.py").write_text(text)
    (folder / "run.sh").write_text(LAUNCH.format(more=more))
    options = ("--gpu", "h100-sxm", "--verl-version", release, "-f", "json")
    report: dict[str, Any] = json.loads(run("advise", str(folder / "run.sh"), *options).out)
    return report


def refusing(report: dict[str, Any]) -> set[str]:
    return {one["code"] for one in report["findings"] if one["severity"] == "error"}


@pytest.mark.parametrize(
    ("more", "code", "release"),
    [
        (f"{ROLLOUT}.mode=sync", "CFG119", "0.7.1"),
        (f"+{ROLLOUT}.n_repeat=5", "CFG001", "0.7.1"),
    ],
)
def test_classes_that_the_own_worker_does_not_make_refuse_nothing(
    more: str, code: str, release: str, tmp_path: Path
) -> None:
    assert code not in refusing(advised(tmp_path, more, release=release))
    makes = WORKER.format(takes=MAKES)
    assert code in refusing(advised(tmp_path, more, worker=makes, release=release))
    rests = (
        f"from verl.workers.fsdp_workers import ActorRolloutRefWorker as Theirs\n{WORKER.format(takes=PLAIN)}"
    )
    assert code in refusing(advised(tmp_path, more, worker=rests, release=release))


def test_a_server_that_the_own_rollout_does_not_start_refuses_nothing(tmp_path: Path) -> None:
    """The rollout is imported under a condition that only its own code decides."""
    report = advised(tmp_path, f"{ROLLOUT}.load_format=dummy_dtensor", release="0.7.1")
    assert "CFG136" not in refusing(report)


def test_an_assertion_of_the_own_rollout_counts_in_every_release(tmp_path: Path) -> None:
    asserts = "assert not (not config.enforce_eager and config.free_cache_engine)"
    graphs = f"{ROLLOUT}.enforce_eager=False {ROLLOUT}.free_cache_engine=True"
    assert "CFG129" in refusing(advised(tmp_path, graphs, asserts=asserts, release="0.6.1"))
    reads = "self.eager = config.enforce_eager or not config.free_cache_engine"
    assert "CFG129" not in refusing(advised(tmp_path, graphs, asserts=reads, release="0.6.1"))
    assert "CFG129" not in refusing(advised(tmp_path, graphs, release="0.4.1"))


def test_the_batch_that_the_own_trainer_repeats_is_counted(tmp_path: Path) -> None:
    batch = advised(tmp_path, f"+{ROLLOUT}.n_repeat=5", release="0.4.1")["workload"]["batch"]
    assert batch["prompts"] == 64 * 5
