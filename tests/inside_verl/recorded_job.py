"""A job whose workers and trainer have verl's shape, on fake memory and a fake clock, with the record on."""

import asyncio
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.inputs.tree import merged
from tuner.inside_verl import installing
from tuner.inside_verl.record import process, recorder, trainer, writer
from tuner.inside_verl.record.meter import CudaMeter
from tuner.trainers.verl.defaults import read_defaults
from tuner.units import GIB

TRACKING = """
class Tracking:
    def __init__(self, project_name, experiment_name, default_backend="console", config=None):
        self.logged = []

    def log(self, data, step, backend=None):
        self.logged.append((step, data))
"""
# verl 0.9.1 workers/engine_workers.py: the worker hands its batch on to one that trains.
ENGINE = """
import torch_of_the_test as torch

class TrainingWorker:
    rank, world_size = 0, 2

    def train_mini_batch(self, data):
        torch.take(12.0, 1.0)
        return {"perf/max_memory_allocated_gb": torch.cuda.max_memory_allocated() / 1024**3}

    def train_batch(self, data):
        torch.take(12.0, 1.0)

    def infer_batch(self, data):
        torch.take(8.0, 0.5)

    def save_checkpoint(self, local_path, hdfs_path=None, global_step=0, max_ckpt_to_keep=None):
        torch.take(6.0, 2.0)


class ActorRolloutRefWorker:
    def __init__(self, rank):
        self.rank, self.world_size, self.role = rank, 2, "actor_rollout_ref"
        self.actor = TrainingWorker()

    def compute_log_prob(self, data):
        return self.actor.infer_batch(data["whole"])

    def compute_ref_log_prob(self, data):
        return self.actor.infer_batch(data["whole"])

    def update_actor(self, data):
        if data["whole"].get("fails"):
            raise MemoryError("CUDA out of memory")
        return self.actor.train_mini_batch(data["whole"])

    async def update_weights(self, global_steps=None, mode="auto"):
        torch.take(5.0, 0.25)
"""
RELEASE = "0.9.1"
STEPS = 5


class Mask:
    """A tensor of ones and zeros, as far as the record looks at it."""

    is_nested = False

    def __init__(self, marked: int) -> None:
        self._marked = marked

    def sum(self) -> int:
        return self._marked


class Batch(dict[str, Any]):
    """A TensorDict, as far as the record looks at it."""

    def __init__(self, sequences: int, **entries: Any) -> None:
        super().__init__(entries)
        self.batch_size = (sequences,)


class FakeCuda:
    """``torch.cuda`` of a card of 79.2 GiB, of which other processes hold 2."""

    def __init__(self) -> None:
        self.peak = self.held = 4 * GIB
        self.resets = 0

    def max_memory_allocated(self, device: Any = None) -> int:
        return self.peak

    def max_memory_reserved(self, device: Any = None) -> int:
        return self.peak + GIB

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        self.peak, self.resets = self.held, self.resets + 1

    def mem_get_info(self) -> tuple[int, int]:
        total = 85_045_215_232
        return total - self.peak - 3 * GIB, total

    def synchronize(self) -> None:
        pass

    def current_device(self) -> int:
        return 0

    def get_device_properties(self, index: int) -> Any:
        return type("Properties", (), {"name": "NVIDIA H100 80GB HBM3", "total_memory": 85_045_215_232})


class Clock:
    """Time that goes on when memory is taken."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def time(self) -> float:
        return self.now

    perf_counter = monotonic = time


class Torch:
    """What the workers compute with."""

    def __init__(self) -> None:
        self.cuda, self.clock = FakeCuda(), Clock()

    def take(self, gib: float, seconds: float) -> None:
        self.cuda.peak = max(self.cuda.peak, round(gib * GIB))
        self.clock.now += seconds


class Job:
    """A job that records into a folder; every rank has a process of its own in truth, and its turn here."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, fake_verl: Callable[..., None]) -> None:
        self.folder, self.torch, self.tables = folder, Torch(), list[int]()
        self._monkeypatch = monkeypatch
        fake_verl(RELEASE, {"verl.utils.tracking": TRACKING, "verl.workers.engine_workers": ENGINE})
        monkeypatch.setitem(importlib.import_module("sys").modules, "torch_of_the_test", self.torch)
        monkeypatch.setenv("TUNER_RECORD", str(folder))
        monkeypatch.setattr(installing, "_state", None)
        monkeypatch.setattr(trainer, "_writers", {})
        monkeypatch.setattr(writer.time, "time", self.torch.clock.time)
        monkeypatch.setattr(recorder, "time", self.torch.clock)
        monkeypatch.setattr(process, "print_table", lambda folder, worker, step: self.tables.append(step))
        self.in_new_process()
        self.state = installing.install()

    def in_new_process(self) -> None:
        """Go on as another process, whose counters of memory begin anew."""
        process.recorder.cache_clear()
        self.torch.cuda = FakeCuda()
        self._monkeypatch.setattr(process, "meter", lambda: CudaMeter(self.torch.cuda))

    def log(self, metrics: dict[str, float], *, config: dict[str, Any] | None) -> None:
        """Log steps as the trainer's process does."""
        self.in_new_process()
        tracking = importlib.import_module("verl.utils.tracking").Tracking("p", "e", config=config)
        for step in range(1, STEPS + 1):
            tracking.log(data=metrics | {"text": "no number", "nan": float("nan")}, step=step)
        assert [step for step, _metrics in tracking.logged] == list(range(1, STEPS + 1))

    def run(self, rank: int, steps: int = STEPS) -> list[Any]:
        """The steps of one rank; what its updates returned."""
        self.in_new_process()
        worker = importlib.import_module("verl.workers.engine_workers").ActorRolloutRefWorker(rank)
        asyncio.run(worker.update_weights(global_steps=0))
        answers = []
        for step in range(1, steps + 1):
            data = batch()
            worker.compute_log_prob(data)
            worker.compute_ref_log_prob(data)
            answers.append(worker.update_actor(data))
            asyncio.run(worker.update_weights(global_steps=step))
        return answers


def batch(**further: Any) -> dict[str, Any]:
    """What a transfer queue's batch looks like: the tensors are not in it, and come within the worker."""
    masks = {"attention_mask": Mask(32_000), "response_mask": Mask(24_000)}
    return {"whole": Batch(64, **masks, global_token_num=[500] * 128, **further)}


def configuration() -> dict[str, Any]:
    """The resolved configuration of the job, with a secret in it."""
    return merged(
        dict(read_defaults(RELEASE, "ppo_trainer").tree),
        {
            "algorithm": {"adv_estimator": "grpo"},
            "data": {"train_batch_size": 32, "max_prompt_length": 256, "max_response_length": 512},
            "trainer": {"n_gpus_per_node": 2, "hf_token": "hf_abcdefghijklmnopqrstuvwxyz012345"},
            "actor_rollout_ref": {
                "model": {"path": "Qwen/Qwen2.5-0.5B-Instruct"},
                "actor": {"use_dynamic_bsz": True, "ppo_mini_batch_size": 16, "use_kl_loss": True},
                "rollout": {"n": 4, "name": "vllm"},
            },
        },
    )
