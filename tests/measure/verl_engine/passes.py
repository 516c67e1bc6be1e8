"""One process, one engine: its passes and what the allocator saw of them."""

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from measure.forked import records_of
from measure.verl_engine.engine import FINE_TUNING, build_engine, loss_function, random_batch
from measure.verl_engine.settings import Case, EngineSettings, PassSettings


class Meter:
    """Reads the allocator of this process's GPU; without one, every reading is 0."""

    def __init__(self) -> None:
        self._cuda = torch.cuda.is_available()
        self.before_step = 0

    def reset(self) -> None:
        gc.collect()
        if self._cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def allocated(self) -> int:
        return torch.cuda.memory_allocated() if self._cuda else 0

    def at(self, step: Callable[[], Any]) -> Callable[[], Any]:
        """The optimizer's step, which notes how high the allocator had been before it."""

        def step_and_note() -> Any:
            if self._cuda:
                self.before_step = torch.cuda.max_memory_allocated()
            return step()

        return step_and_note

    def peaks(self) -> dict[str, int]:
        names = ("peak_allocated_bytes", "peak_requested_bytes", "peak_reserved_bytes", "non_torch_bytes")
        if not self._cuda:
            return dict.fromkeys(names, 0)
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        readings = (
            torch.cuda.max_memory_allocated(),
            torch.cuda.memory_stats()["requested_bytes.all.peak"],
            torch.cuda.max_memory_reserved(),
            total - free - torch.cuda.memory_reserved(),
        )
        return dict(zip(names, readings, strict=True))


def run_pass(engine: Any, engine_settings: EngineSettings, settings: PassSettings) -> dict[str, Any]:
    """One pass as verl's training worker makes it, and what the allocator saw."""
    data = random_batch(settings, engine_settings, engine)
    loss, config = loss_function(settings, engine_settings)
    update = settings.kind in ("update", FINE_TUNING)
    meter = Meter()
    dist.barrier()
    meter.reset()
    before = meter.allocated()
    begin = time.perf_counter()
    mode: AbstractContextManager[Any] = engine.train_mode() if update else engine.eval_mode()
    with mode:
        loaded = meter.allocated()
        if update:
            with mock.patch.object(engine, "optimizer_step", meter.at(engine.optimizer_step)):
                output = engine.train_batch(data, loss_function=partial(loss, config=config))
        else:
            output = engine.infer_batch(data)
    peaks = meter.peaks()
    seconds = round(time.perf_counter() - begin, 3)
    if update and engine.is_mp_src_rank_with_outputs() and not output["metrics"]["grad_norm"] < float("inf"):
        raise RuntimeError("the gradient is not finite: AdamW made no step")
    pass_fields = asdict(settings)
    return {
        **asdict(engine_settings),
        "world_size": dist.get_world_size(),
        "pass": pass_fields.pop("kind"),
        **pass_fields,
        "allocated_before_bytes": before,
        "allocated_loaded_bytes": loaded,
        **peaks,
        **({"peak_before_step_bytes": meter.before_step} if update else {}),
        "seconds": seconds,
    }


def _run_case(case: Case, port: int, timeout: timedelta, dry_run: bool, results: Any) -> None:
    """Everything that happens in one fresh process: an engine, a warm-up and the passes."""
    os.environ["MASTER_PORT"] = str(port)
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(
        backend="cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=timeout
    )
    planned = list(case.passes)
    if dry_run:
        planned = [shrunk(item) for item in planned]
    try:
        engine = build_engine(case.engine, tiny=dry_run)
        for settings in _warm_up(planned):
            run_pass(engine, case.engine, settings)
        for settings in planned:
            results.send(run_pass(engine, case.engine, settings))
    except Exception:
        results.send(traceback.format_exc())
    results.close()
    sys.stdout.flush()
    os._exit(0)  # one rank may have failed: wait for nobody


def shrunk(settings: PassSettings) -> PassSettings:
    """The pass on a 256th of its tokens; whole where they have to hold those of images."""
    if settings.image_pixels:
        return settings
    return replace(settings, tokens=settings.tokens // 256, sequence_length=4)


def _warm_up(planned: Sequence[PassSettings]) -> Iterator[PassSettings]:
    """One small pass of every kind, so that compiled functions and AdamW's states exist."""
    for kind in sorted({settings.kind for settings in planned}):
        for entropy in sorted({settings.calculate_entropy for settings in planned}):
            length = planned[0].sequence_length
            yield replace(
                planned[0],
                kind=kind,
                calculate_entropy=entropy,
                tokens=2 * length,
                micro_batches=1,
            )


def outcome(case: Case, port: int, timeout: timedelta, dry_run: bool) -> list[dict[str, Any]]:
    """The records of a case, by a process of its own; fewer than planned if it failed."""
    return records_of(_run_case, case, port, timeout, dry_run, timeout_s=timeout.total_seconds())
