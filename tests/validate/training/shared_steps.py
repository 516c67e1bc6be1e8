"""Called in processes of their own: a training step whose sequences ranks share, beside one without."""

from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from msgspec import structs
from torch import Tensor

from tuner.validate.training.settings import ModelSettings, PassSettings
from tuner.validate.training.worker.batches import MicroBatch
from tuner.validate.training.worker.engine import TrainingEngine


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The largest of all ranks, each as a share of the largest value."""

    results: float  # log-probabilities and entropy, or values
    gradients: float


def differences(model: ModelSettings, cases: list[PassSettings], *, device: str) -> list[Difference]:
    """Of each case with Ulysses over all ranks and without, from the same weights and micro-batch."""
    return [_difference(model, settings, torch.device(device)) for settings in cases]


def _difference(model: ModelSettings, settings: PassSettings, device: torch.device) -> Difference:
    parallel = structs.replace(settings.engine.parallel, ulysses=dist.get_world_size())
    shared = replace(settings, engine=structs.replace(settings.engine, parallel=parallel))
    alone, together = (TrainingEngine(model, each.built, device) for each in (settings, shared))
    (batch,) = alone.batch(settings)
    if model.critic:  # values before the update near those of now, or clipping leaves no gradient
        batch = replace(batch, old_log_probs=torch.zeros_like(batch.old_log_probs))
    first, second = _step(alone, settings, batch), _step(together, shared, batch)
    return Difference(
        results=max(map(_share, first[0], second[0])), gradients=max(map(_share, first[1], second[1]))
    )


def _step(
    engine: TrainingEngine, settings: PassSettings, batch: MicroBatch
) -> tuple[list[Tensor], list[Tensor]]:
    """Results of all tokens, and this rank's shards of the gradients; ranks without one have none."""
    with torch.no_grad():
        results = engine._forward(settings, batch)
    engine._forward_backward(settings, batch)
    gradients = [each.grad for each in engine._module.parameters() if each.grad is not None]
    assert gradients
    return list(results), [getattr(each, "_local_tensor", each) for each in gradients]


def _share(first: Tensor, second: Tensor) -> float:
    assert first.shape == second.shape
    if not first.numel():
        first = second = torch.zeros(1)
    both = torch.stack(((first - second).abs().max(), first.abs().max()))
    dist.all_reduce(both, dist.ReduceOp.MAX)
    assert both[1] > 0
    return float(both[0] / both[1])
