"""Passes of several engines, one engine after the other in one process."""

import gc
from collections.abc import Sequence

import torch

from tuner.validate.training.settings import ModelSettings, PassSettings
from tuner.validate.training.worker.measure import Result, measure_passes


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
