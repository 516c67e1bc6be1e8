"""One engine in a process of its own: its passes, warm, stage by stage."""

import os
import sys
import traceback
from dataclasses import replace
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

_REPETITIONS = 3
_SMALL = 256


class StageClock(Meter):
    """Notes when each stage of a pass was over, which synchronises where the engine does so anyway."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.ends: dict[Stage, float] = {}

    def end_of(self, stage: Stage) -> None:
        super().end_of(stage)
        self.ends[stage] = self.now()


def records(plan: EnginePlan, *, tiny: bool, profiled: bool, timeout_s: float) -> list[dict[str, Any]]:
    """Every pass of an engine, run in a fresh process; fewer than planned where one failed."""
    return records_of(_run, plan, tiny, profiled, timeout_s=timeout_s)


def _run(plan: EnginePlan, tiny: bool, profiled: bool, sender: Any) -> None:
    try:
        for record in _passes(plan, tiny=tiny, profiled=profiled):
            sender.send(record)
    except Exception:
        sender.send(f"{plan.name}: {traceback.format_exc()}")
    sender.close()
    sys.stdout.flush()
    os._exit(0)


def _passes(plan: EnginePlan, *, tiny: bool, profiled: bool) -> Any:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    model = shape(plan, tiny=tiny)
    planned = [(values, pass_settings(values, model)) for values in plan.passes(tiny=tiny)]
    engine = TrainingEngine(model_settings(plan.config(tiny=tiny)), replace(planned[0][1]).built, device)
    engine.meter = clock = StageClock(device)
    for settings in {(one.training, one.entropy): one for _, one in planned}.values():
        length = min(settings.sequence_length, _SMALL)
        small = replace(settings, tokens=2 * length, sequence_length=length)
        engine.run(small, engine.batch(small))
    for values, settings in planned:
        yield values | {"layers": model.layers} | _measured(engine, clock, settings, profiled=profiled)


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
        "kernels": kernels_of(lambda: engine.run(settings, batch)) if profiled else {},
    }


def _timed(engine: TrainingEngine, clock: StageClock, settings: PassSettings, batch: Any) -> dict[str, float]:
    """Seconds of one run and of its stages; what is left is around them."""
    clock.ends = {}
    begin = clock.now()
    engine.run(settings, batch)
    whole = clock.now() - begin
    stages, last = {}, begin
    for stage, end in clock.ends.items():
        stages[stage.value], last = end - last, end
    return {"whole": whole, **stages}
