"""Training passes on the device: one engine, its passes one after the other, and what each of them took."""

import gc
import logging
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from msgspec import structs
from torch._C._distributed_c10d import HashStore

from tuner.validate.training.settings import ModelSettings, PassFailed, PassFigures, PassSettings
from tuner.validate.training.worker import verl_engine
from tuner.validate.training.worker.engine import TrainingEngine

_SMALL = 256  # tokens of a sequence
_OF_TRAINING = 4  # forward, again, and backward, in forward passes

Result = PassFigures | PassFailed
AnyEngine = TrainingEngine | verl_engine.VerlEngine


@dataclass(frozen=True, kw_only=True)
class _Repeat:
    """How often a pass is run for the time."""

    most: int
    limit_s: float  # of all repetitions of a pass
    end: float  # of the call

    def again(self, repetitions: Sequence[tuple[float, float]]) -> bool:
        """Whether there is another one; the first does not depend on the time."""
        if not repetitions or len(repetitions) >= self.most:
            return len(repetitions) < self.most
        return sum(seconds for seconds, _ in repetitions) < self.limit_s and time.monotonic() < self.end


def measure_passes(
    model: ModelSettings,
    passes: Sequence[PassSettings],
    repetitions: int = 3,
    limit_s: float = float("inf"),
    repeat_s: float = float("inf"),
    *,
    device: str,
) -> tuple[Result, ...]:
    """Build one engine and run passes that agree in what it is built with.

    Each pass runs once from an emptied cache, which gives its bytes, and then for the time. AdamW's states
    are there from the beginning; small passes of every kind go first, so that compiled functions exist.

    Args:
        model: what the model is made from.
        passes: in the order to run them.
        repetitions: timed ones of each pass, at most.
        limit_s: seconds until the call should be over: no pass begins that would take longer, by the pace of
            those before it.
        repeat_s: seconds after which a pass is not repeated again.
        device: for ``torch.device``.

    Returns:
        One result for each pass that was begun; a failed one is the last, as it leaves an engine behind that
        nothing more can be measured with.
    """
    end = time.monotonic() + limit_s
    where = torch.device(device)
    join_alone(where)
    try:
        engine = _built(model, passes, where)
        for small in _small(passes):
            engine.run(small, engine.batch(small))
    except Exception as error:
        failed = _failed(error)
        return (replace(failed, message=f"before the first pass: {failed.message}"),)
    results: list[Result] = []
    pace = 0.0  # seconds per unit of work, of the slowest pass so far
    for settings in passes:
        begin, work = time.monotonic(), _work(settings)
        if not _agreed(begin + pace * work < end, where):
            break
        results.append(
            _measured_result(engine, settings, _Repeat(most=repetitions, limit_s=repeat_s, end=end))
        )
        pace = max(pace, (time.monotonic() - begin) / work)
        if isinstance(results[-1], PassFailed):
            break
    return tuple(results)


def _built(model: ModelSettings, passes: Sequence[PassSettings], device: torch.device) -> AnyEngine:
    """Verl's engine where it is here, else the one that stands in for it."""
    if verl_engine.is_here(passes):
        return verl_engine.VerlEngine(model, replace(passes[0], engine=passes[0].built), device)
    return TrainingEngine(model, passes[0].built, device)


def join_alone(device: torch.device) -> None:
    """A process group of this process alone, where it is in none."""
    if dist.is_initialized():
        return
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)


def _agreed(wanted: bool, device: torch.device) -> bool:
    """Whether the first rank wants it: all must begin the same passes."""
    if dist.get_world_size() == 1:
        return wanted
    flag = torch.tensor([wanted], dtype=torch.uint8, device=device)
    dist.broadcast(flag, src=0)
    return bool(flag.item())


def _small(passes: Sequence[PassSettings]) -> list[PassSettings]:
    """Two short sequences of every kind of pass."""
    kinds = {
        (item.training, item.entropy, item.head): replace(
            item,
            tokens=2 * _small_length(item),
            sequence_length=_small_length(item),
            images=None if item.images is None else replace(item.images, per_prompt=1),
            micro_batches=1,
            engine=structs.replace(item.engine, param_offload=False, optimizer_offload=False),
        )
        for item in passes
    }
    return list(kinds.values())


def _small_length(settings: PassSettings) -> int:
    """Tokens of a short sequence; it has room for an image."""
    image = 0 if settings.images is None else settings.images.tokens + 1
    return max(image, min(settings.sequence_length, _SMALL))


def _work(settings: PassSettings) -> float:
    """What it takes to run a pass once, and once for the time, in units of a token's forward pass."""
    timed, first = settings.timed, settings.first_tokens or settings.tokens
    tokens = settings.tokens + first * (settings.micro_batches - 1) + timed.tokens * timed.micro_batches
    return max(1.0, tokens * (_OF_TRAINING if settings.training else 1))


def _measured_result(engine: AnyEngine, settings: PassSettings, repeat: _Repeat) -> Result:
    meter = engine.meter
    try:
        engine.offload_like(settings)
        batch = engine.batch(settings)
        meter.reset()
        before = meter.allocated()
        engine.run(settings, batch)
        peaks, stages = meter.peaks(), dict(meter.stages)
        times = _times(engine, settings.timed, repeat)
    except Exception as error:
        return _failed(error)
    return PassFigures(
        engine=engine.name,
        allocated_before_bytes=before,
        seconds=tuple(seconds for seconds, _ in times),
        once_seconds=tuple(once for _, once in times),
        stages=stages,
        **peaks,
    )


def _times(engine: AnyEngine, settings: PassSettings, repeat: _Repeat) -> list[tuple[float, float]]:
    """Seconds of each repetition, and of what it does once; fewer where the time is up."""
    repetitions: list[tuple[float, float]] = []
    batch = engine.batch(settings)
    while _agreed(repeat.again(repetitions), engine.device):
        begin = engine.meter.now()
        once = engine.run(settings, batch)
        repetitions.append((engine.meter.now() - begin, once))
    return repetitions


def _failed(error: Exception) -> PassFailed:
    logging.getLogger(__name__).error("%s", traceback.format_exc())
    lines = str(error).strip().splitlines() or [""]
    return PassFailed(
        message=f"{type(error).__name__}: {lines[0].rstrip('.')}",
        out_of_memory=isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error),
    )


def measure(
    model: ModelSettings, engines: Sequence[Sequence[PassSettings]], *, device: str
) -> tuple[tuple[Result, ...], ...]:
    """The passes of every engine; the memory of one is free before the next is built.

    Args:
        model: what all engines are built from.
        engines: passes of one engine each, see :func:`.measure_passes`.
        device: for ``torch.device``.
    """
    results = []
    for passes in engines:
        results.append(measure_passes(model, passes, device=device))
        gc.collect()
        if torch.device(device).type == "cuda":
            torch.cuda.empty_cache()
    return tuple(results)
