"""Model FLOP utilisation of the actor's update, as verl counts it.

Sources: verl ``utils/flops_counter.py`` (``_estimate_qwen2_flops``, ``_estimate_qwen2_moe_flops``,
``get_device_flops``) of 0.4.1 to 0.9.1; ``workers/fsdp_workers.py`` and ``workers/megatron_workers.py``
(``update_actor``: the timer is around ``update_policy``, so offloaded states are moved outside of it).
"""

from tuner.model_shape import ModelShape
from tuner.trainers.verl.releases import reaches
from tuner.workload import Workload

_METRIC = "perf/mfu/actor"
_CAUSAL_SINCE = "0.7.1"  # from which attention counts with half of its products
_PASSES = 6  # FLOP of a weight and a token, forward and backward: two each in three products
_GATED = 3  # matrices of a gated MLP, which verl counts whatever the model has
# Peaks that a release counts with where the profile of the card has another.
_MI300X, _MI300X_BEFORE, _MI300X_CHANGED = "mi300x", 1336e12, "0.9.0"


def printed_utilisation(metrics: dict[str, float]) -> float | None:
    """The utilisation among the metrics of a step; None where they have none."""
    return metrics.get(_METRIC)


def utilisation(workload: Workload, seconds: float) -> float | None:
    """What verl would print of an update of so many seconds; None for a model that it counts in another way.

    Sequences count with their mean length: of longer and shorter ones attention takes a little more.

    Args:
        workload: the job.
        seconds: of the actor's passes and optimizer steps, without moving states from and to the host.
    """
    model, batch = workload.model, workload.batch
    if model.latent is not None or model.linear is not None or model.windowed_layers or seconds <= 0:
        return None
    length = batch.mean_sequence_tokens
    tokens = batch.sequences * length * batch.epochs
    causal = reaches(workload.release.version, _CAUSAL_SINCE)
    attention = (6 if causal else 12) * length * model.head_dim * model.heads * model.layers
    flop = tokens * (_PASSES * _counted_parameters(model) + attention)
    return flop / seconds / (_peak(workload) * workload.cluster.gpus)


def _counted_parameters(model: ModelShape) -> int:
    """Weights that a token is multiplied with, and the embedding, whether it is tied or not."""
    attention = model.hidden * model.head_dim * (2 * model.heads + 2 * model.kv_heads)
    moe = model.moe
    if moe is None:
        mlp = _GATED * model.hidden * model.intermediate
    else:
        routed = _GATED * model.hidden * moe.experts_per_token * moe.expert_intermediate
        mlp = routed + model.hidden * moe.experts
    return model.layers * (attention + mlp) + 2 * model.vocab * model.hidden


def _peak(workload: Workload) -> float:
    """FLOP/s of one card by which the release divides."""
    gpu = workload.cluster.gpu
    if gpu.name == _MI300X and not reaches(workload.release.version, _MI300X_CHANGED):
        return _MI300X_BEFORE
    return gpu.dense_bf16_flop_per_s
