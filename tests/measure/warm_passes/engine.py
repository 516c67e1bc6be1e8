"""One engine in a process of its own: its passes, warm, stage by stage."""

import os
import sys
import time
import traceback
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from measure.forked import records_of
from measure.warm_passes.kernels import kernels_of
from measure.warm_passes.plan import EnginePlan, model_settings, pass_settings, shape
from torch._C._distributed_c10d import HashStore

from tuner.validate.training.settings import PassSettings, Stage
from tuner.validate.training.worker.engine import TrainingEngine
from tuner.validate.training.worker.meter import Meter

_REPETITIONS = 5
_SMALL = 256
_RENDEZVOUS_S = 60.0


class StageClock(Meter):
    """Notes when each stage of a pass was over, which synchronises where the engine does so anyway.

    And when the host had nothing left to launch: in the forward stage as far as the model reaches, since
    the loss waits for the GPU.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.ends: dict[Stage, float] = {}
        self.launched: dict[Stage, float] = {}

    def returned(self, *_: object) -> None:
        """The model gave its results back; a hook of its."""
        self.launched[Stage.FORWARD] = time.perf_counter()

    def end_of(self, stage: Stage) -> None:
        self.launched.setdefault(stage, time.perf_counter())
        super().end_of(stage)
        self.ends[stage] = self.now()


@dataclass(frozen=True, kw_only=True)
class Place:
    """This process among those of the other GPUs."""

    rank: int = 0
    ranks: int = 1
    port: int = 0  # of the rendezvous of the engine's processes; each engine has its own

    def join(self, device: torch.device) -> None:
        """A process group of one process for each GPU; of this one alone where there is one."""
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        timeout = timedelta(seconds=_RENDEZVOUS_S)
        if self.ranks == 1:
            dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
            return
        store = dist.TCPStore("localhost", self.port, self.ranks, self.rank == 0, timeout)
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.ranks, timeout=timeout)


def records(
    plan: EnginePlan, place: Place, *, tiny: bool, profiled: bool, timeout_s: float
) -> list[dict[str, Any]]:
    """Every pass of an engine, run in a fresh process; fewer than planned where one failed."""
    return records_of(_run, plan, place, tiny, profiled, timeout_s=timeout_s)


def _run(plan: EnginePlan, place: Place, tiny: bool, profiled: bool, sender: Any) -> None:
    try:
        for record in _passes(plan, place, tiny=tiny, profiled=profiled):
            sender.send(record)
    except Exception:
        sender.send(f"{plan.name}: {traceback.format_exc()}")
    sender.close()
    sys.stdout.flush()
    os._exit(0)


def _passes(plan: EnginePlan, place: Place, *, tiny: bool, profiled: bool) -> Any:
    device = torch.device(f"cuda:{place.rank}" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    place.join(device)
    model = shape(plan, tiny=tiny)
    passes = plan.passes(ranks=place.ranks, tiny=tiny)
    planned = [(values, pass_settings(values, model)) for values in passes]
    engine = TrainingEngine(model_settings(plan.config(tiny=tiny)), replace(planned[0][1]).built, device)
    if plan.attention is not None:
        engine.module.config._attn_implementation = plan.attention  # type: ignore[union-attr]
    engine.meter = clock = StageClock(device)
    engine.module.register_forward_hook(clock.returned)
    for settings in {(one.training, one.entropy): one for _, one in planned}.values():
        length = min(settings.sequence_length, _SMALL)
        small = replace(settings, tokens=2 * length, sequence_length=length)
        engine.run(small, engine.batch(small))
    for values, settings in planned:
        of_kernels = profiled and (place.ranks == 1 or values["tokens"] == planned[0][0]["tokens"])
        yield values | {"layers": model.layers} | _measured(engine, clock, settings, profiled=of_kernels)


def _measured(
    engine: TrainingEngine, clock: StageClock, settings: PassSettings, *, profiled: bool
) -> dict[str, Any]:
    batch = engine.batch(settings)
    clock.reset()
    before = clock.allocated()
    engine.run(settings, batch)
    peaks = clock.peaks()
    engine.run(settings, batch)
    times = [_timed(engine, clock, settings, batch) for _ in range(_REPETITIONS)]
    stages = {f"{name}_seconds": round(median(time[name] for time in times), 6) for name in times[0]}
    return {
        "allocated_before_bytes": before,
        **peaks,
        "seconds": stages.pop("whole_seconds"),
        **stages,
        "repeated_seconds": [round(time["whole"], 6) for time in times],
        **({"kernels": kernels_of(lambda: engine.run(settings, batch))} if profiled else {}),
    }


def _timed(engine: TrainingEngine, clock: StageClock, settings: PassSettings, batch: Any) -> dict[str, float]:
    """Seconds of one run and of its stages; what is left is around them. All ranks begin together.

    And those of each stage until the host had launched it.
    """
    clock.ends, clock.launched = {}, {}
    clock.now()
    dist.barrier()
    begin = clock.now()
    engine.run(settings, batch)
    whole = clock.now() - begin
    stages, last = {}, begin
    for stage, end in clock.ends.items():
        stages[f"{stage.value}_host"] = clock.launched[stage] - last
        stages[stage.value], last = end - last, end
    return {"whole": whole, **stages}
