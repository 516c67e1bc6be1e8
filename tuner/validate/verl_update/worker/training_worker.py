"""verl's ``TrainingWorker`` around an FSDP engine of its own, without Ray."""

from functools import partial
from importlib import import_module
from typing import Any

import torch

from tuner.validate.training.settings import ModelSettings
from tuner.validate.training.worker.verl_build import Additions, initialized_engine, verl
from tuner.validate.verl_update.settings import UpdateWork

OURS = "tuner.inside_verl"  # what a job names as an external library


def built_worker(model: ModelSettings, work: UpdateWork, device: torch.device) -> Any:
    """A worker that is ready for an update, its learning rate 0: all updates start from the same weights.

    Args:
        model: what the engine is built from.
        work: the settings of the engine, and whose head it gets.
        device: that it runs on.

    Raises:
        RuntimeError: the head of ``tuner.inside_verl`` was asked for and is not in place.
    """
    workers, profiling = verl("workers.engine_workers"), verl("utils.profiler")
    # Without its own constructor, which asks Ray where it is.
    worker = object.__new__(workers.TrainingWorker)
    worker.engine, _ = initialized_engine(model, work.settings, _additions(work, device))
    if work.ours:
        _expect_head(worker.engine.module)
    for group in worker.engine.optimizer.param_groups:
        group["lr"] = 0.0
    worker.engine.lr_scheduler_step = lambda: 0.0
    worker.engine_config, worker.model_config = worker.engine.engine_config, worker.engine.model_config
    worker.device_name = device.type
    worker.flops_counter = _NoFlops()
    worker.profiler = profiling.DistProfiler(rank=worker.engine.rank, config=None)
    actor = verl("workers.config").FSDPActorConfig(
        strategy=work.settings.engine.backend.value,
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=work.settings.sequences,
        use_dynamic_bsz=False,
    )
    worker.loss_fn = partial(verl("workers.utils.losses").ppo_loss, config=actor)
    return worker


class _NoFlops:
    """In the place of verl's count of FLOPs, which knows no card but its own list."""

    def estimate_flops(self, *_: Any, **__: Any) -> tuple[float, float]:
        """None of a nominal rate of 1."""
        return 0.0, 1.0


def _additions(work: UpdateWork, device: torch.device) -> Additions:
    on_the_cpu = device.type == "cpu"  # where flash-attn has no build
    return Additions(
        external_lib=OURS if work.ours else None,
        checkpointing=True,
        offloads=True,
        model={"attn_implementation": "sdpa"} if on_the_cpu else {},
    )


def _expect_head(module: Any) -> None:
    """Else the figures would be those of a head of verl's."""
    inner = getattr(module, "module", module)  # FSDP1 wraps the model
    mark = import_module(f"{OURS}.head.choice").MARK
    if not hasattr(inner.forward, mark):
        raise RuntimeError(f"{OURS} did not give its head to {type(inner).__name__}")
