"""verl's training worker around its FSDP engine, and one timed update of it."""

import importlib
import os
import sys
import time
import types
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from measure.verl_engine.engine import build_engine
from measure.verl_engine.settings import EngineSettings
from measure.verl_engine.stand_ins import Permissive, prepare_imports

from tuner.inside_verl.patching import apply
from tuner.inside_verl.skip.patches import PATCHES

WORKERS = "verl.workers.engine_workers"
VARIABLE = "TUNER_SKIP_ZERO_ADVANTAGE"
GROUP = 8  # responses to one prompt
_UNUSED = ("accelerate", "cachetools", "fastapi", "liger_kernel", "pandas", "psutil", "pylatexenc", "uvicorn")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of a rank's batch."""

    sequences: int = 128
    mini_batches: int = 4
    prompt: int = 256
    shortest: int = 256  # response
    longest: int = 1792
    budget: int = 16384  # tokens of a micro-batch

    @classmethod
    def tiny(cls) -> "Sizes":
        """For a processor."""
        return cls(sequences=32, mini_batches=2, prompt=3, shortest=2, longest=9, budget=48)


def prepare_workers() -> None:
    """Imports verl's engine and workers, and wraps these as the skip does."""
    Permissive.names += _UNUSED
    os.environ.pop(VARIABLE, None)
    prepare_imports()
    importlib.import_module(WORKERS)
    for patch in PATCHES:
        if patch.module == WORKERS and not patch.attribute.endswith("set_loss_fn") and not apply(patch):
            raise RuntimeError(f"{patch.name}: verl has no {patch.attribute}")


def build_worker(settings: EngineSettings, sizes: Sizes, *, tiny: bool) -> Any:
    """verl's ``TrainingWorker`` with its FSDP engine and its PPO loss."""
    from verl.workers.config import FSDPActorConfig
    from verl.workers.engine_workers import TrainingWorker
    from verl.workers.utils.losses import ppo_loss

    worker = object.__new__(TrainingWorker)
    worker.engine = build_engine(settings, tiny=tiny)
    for group in worker.engine.optimizer.param_groups:
        group["lr"] = 0.0  # so that all updates start from the same weights
    worker.engine.lr_scheduler_step = lambda: 0.0
    worker.engine_config = worker.engine.engine_config
    worker.engine_config.use_dynamic_bsz = True
    worker.engine_config.max_token_len_per_gpu = sizes.budget
    worker.model_config = worker.engine.model_config
    worker.device_name = "cuda" if torch.cuda.is_available() else "cpu"
    worker.flops_counter = types.SimpleNamespace(estimate_flops=_count_tokens)
    worker.profiler = mock.MagicMock(rank=0)
    worker.profiler.check_enable.return_value = False
    actor = FSDPActorConfig(strategy=settings.strategy, rollout_n=1, ppo_micro_batch_size_per_gpu=1)
    worker.loss_fn = partial(ppo_loss, config=actor)
    return worker


def _count_tokens(lengths: list[int], _seconds: float, **_: Any) -> tuple[float, float]:
    """The tokens in the place of FLOPs, so that the metric of their rate counts what ran."""
    return float(sum(lengths)), 1.0


def _batch(sizes: Sizes, share: float, vocabulary: int) -> Any:
    """A rank's part of a batch, as verl's trainer hands it to its workers."""
    from verl.utils import tensordict_utils as tu

    ranks, rank = dist.get_world_size(), dist.get_rank()
    # Groups are dealt out to the ranks in a random order, as balancing by length does.
    shared = torch.Generator().manual_seed(1)
    total = sizes.sequences * ranks
    groups = total // GROUP
    teaches = torch.zeros(groups)
    teaches[torch.randperm(groups, generator=shared)[round(groups * share) :]] = 1
    order = torch.randperm(total, generator=shared)[rank * sizes.sequences :][: sizes.sequences]
    own = torch.Generator().manual_seed(2 + rank)
    responses = torch.randint(sizes.shortest, sizes.longest + 1, (sizes.sequences,), generator=own).tolist()

    def nested(tensors: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(tensors, layout=torch.jagged)

    tokens = [torch.randint(vocabulary, (sizes.prompt + count,), generator=own) for count in responses]
    advantages = torch.randn(sizes.sequences, generator=own) * teaches[order // GROUP]
    mini_batch = total // sizes.mini_batches
    return tu.get_tensordict(
        {
            "input_ids": nested(tokens),
            "position_ids": nested([torch.arange(len(row)) for row in tokens]),
            "prompts": nested([row[: sizes.prompt] for row in tokens]),
            "responses": nested([row[sizes.prompt :] for row in tokens]),
            "response_mask": nested([torch.ones(count) for count in responses]),
            "loss_mask": nested([torch.ones(count) for count in responses]),
            "old_log_probs": nested([torch.full((count,), -log(vocabulary)) for count in responses]),
            "advantages": nested(
                [value.expand(count) for value, count in zip(advantages, responses, strict=True)]
            ),
        },
        {
            "use_remove_padding": True,
            "calculate_entropy": False,
            "temperature": 1.0,
            "global_batch_size": mini_batch,
            "mini_batch_size": mini_batch,
            "epochs": 1,
            "seed": 1,
            "dataloader_kwargs": {"shuffle": False},
        },
    )


def timed_update(worker: Any, sizes: Sizes, *, share: float, mode: str | None) -> dict[str, Any]:
    """Seconds of one update, from the same weights as any other."""
    from verl.utils import tensordict_utils as tu

    kind = sys.modules[WORKERS].TrainingWorker
    data = _batch(sizes, share, worker.engine.model_config.hf_config.get_text_config().vocab_size)
    own = {name: vars(kind)[name] for name in ("train_mini_batch", "train_batch")}
    used = own if mode else {name: function.__wrapped__ for name, function in own.items()}
    cuda = torch.cuda.is_available()
    with mock.patch.dict(os.environ, {VARIABLE: mode} if mode else {}), mock.patch.multiple(kind, **used):
        if cuda:
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        output = worker.train_mini_batch(data)
        if cuda:
            torch.cuda.synchronize()
        dist.barrier()
        seconds = time.perf_counter() - begin
    metrics = tu.get(output, "metrics")
    skipped = {name.rpartition("/")[2]: value for name, value in metrics.items() if "skip/" in name}
    return {
        "zero_advantage_share": share,
        "skip": mode,
        "seconds": round(seconds, 4),
        "run_tokens": round(sum(metrics["mfu"]) * dist.get_world_size()),
        "grad_norms": list(map(float, metrics["grad_norm"])),
        "losses": list(map(float, metrics["loss"])),
        "skipped": skipped,
        "peak_allocated_bytes": torch.cuda.max_memory_allocated() if cuda else 0,
    }
