"""The record in the workers of 0.6.1: a batch with padding, an engine that the worker wakes."""

import asyncio
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.inside_verl.recorded_job import Batch, Mask
from tuner.inputs.record.read import read_record
from tuner.inside_verl import installing
from tuner.inside_verl.record import process
from tuner.workload import Phase

# verl 0.6.1 workers/fsdp_workers.py
WORKERS = """
class ActorRolloutRefWorker:
    rank, world_size, role = 0, 1, "actor_rollout"

    def generate_sequences(self, prompts):
        return prompts

    def compute_log_prob(self, data):
        return data

    def compute_ref_log_prob(self, data):  # of LoRA: the actor without its adapter
        return self.compute_log_prob(data)

    def update_actor(self, data):
        return data

    def save_checkpoint(self, local_path, hdfs_path=None, global_step=0, max_ckpt_to_keep=None):
        pass


class AsyncActorRolloutRefWorker(ActorRolloutRefWorker):
    async def wake_up(self):
        return True

    async def sleep(self):
        return True


class CriticWorker:
    def compute_values(self, data):
        return data

    def update_critic(self, data):
        return data
"""


class DataProto:
    """verl's batch, as far as the record looks at it."""

    def __init__(self, **meta_info: Any) -> None:
        self.batch, self.meta_info = Batch(8, attention_mask=Mask(4000)), meta_info


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_verl: Callable[..., None]) -> Any:
    fake_verl("0.6.1", {"verl.workers.fsdp_workers": WORKERS})
    monkeypatch.setenv("TUNER_RECORD", str(tmp_path / "record"))
    monkeypatch.setattr(installing, "_state", None)
    monkeypatch.setattr(process, "meter", lambda: None)
    monkeypatch.setattr(process, "print_table", lambda *_: None)
    process.recorder.cache_clear()
    installing.install()
    return importlib.import_module("verl.workers.fsdp_workers")


def phases(tmp_path: Path) -> list[tuple[int, Phase]]:
    return [(line.step, line.phase) for line in read_record(tmp_path / "record").workers[0].phases]


def test_what_lies_between_waking_and_sleeping_is_the_rollout(workers: Any, tmp_path: Path) -> None:
    worker = workers.AsyncActorRolloutRefWorker()
    for _step in range(2):
        assert asyncio.run(worker.wake_up())
        assert asyncio.run(worker.sleep())
        data = DataProto()
        assert worker.compute_log_prob(data) is data
        worker.update_actor(data)
    step = [Phase.UPDATE_WEIGHTS, Phase.ROLLOUT, Phase.OLD_LOG_PROB, Phase.UPDATE_ACTOR]
    assert phases(tmp_path) == [(number, phase) for number in (1, 2) for phase in step]


def test_a_validation_is_no_phase_and_a_step_is_what_the_batch_says(workers: Any, tmp_path: Path) -> None:
    worker = workers.ActorRolloutRefWorker()
    worker.generate_sequences(prompts=DataProto(validate=True, global_steps=0))
    worker.generate_sequences(DataProto(global_steps=7))
    worker.compute_ref_log_prob(DataProto())
    worker.save_checkpoint("somewhere", global_step=7)
    assert phases(tmp_path) == [(7, Phase.ROLLOUT), (7, Phase.REF_LOG_PROB), (7, Phase.SAVE_CHECKPOINT)]
    line = read_record(tmp_path / "record").workers[0].phases[1]
    assert (line.sequences, line.tokens, line.allocated_bytes) == (8, 4000, None)
