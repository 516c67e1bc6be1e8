"""verl's ``TrainingWorker`` around an FSDP engine of its own, without Ray."""

from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from tuner.validate.training.settings import ModelSettings
from tuner.validate.training.worker.verl_build import Additions, initialized_engine, verl
from tuner.validate.verl_update.settings import UpdateWork

OURS = "tuner.inside_verl"  # what a job names as an external library


class _NoCounts:
    """In the place of ``torch.cuda``: whatever is asked of it is nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _both_zero if name == "mem_get_info" else _zero


def _zero(*_: Any, **__: Any) -> int:
    return 0


def _both_zero(*_: Any, **__: Any) -> tuple[int, int]:
    return 0, 0


def run_on_the_cpu() -> None:
    """Make verl take the processor for its accelerator; before its platforms it does, and asks it for bytes.

    Source: verl 0.9.1 ``plugin/platform/platform_cuda.py``; 0.7.1 ``utils/device.py``.
    """
    if find_spec("verl.plugin") is None:
        for name in ("max_memory_allocated", "max_memory_reserved"):
            setattr(torch.cpu, name, _zero)
        return
    platform = verl("plugin.platform.platform_cuda").PlatformCUDA
    platform.device_name = "cpu"
    platform.device_module = _NoCounts()
    platform.current_device = lambda self: torch.device("cpu")
    platform.empty_cache = lambda self: None
    platform.is_available = lambda self: True


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
