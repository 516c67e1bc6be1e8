r"""Seconds of a checkpoint: what ranks copy to the host, make files of and write, and what one of them does.

Training stands still meanwhile. Each rank has a file of its own, of the weights and the optimizer's states
that it holds; the ranks of a node share its way to the storage:

.. math::
    t = t_{gather} + \frac{b_{GPU}}{\beta_{host}} + \frac{b}{\beta_{thread}} + \frac{G \, b}{\beta_{node}}

b are the bytes of a rank, :math:`b_{GPU}` those that lie on the card, G the ranks of a node. They come one
after the other, as one thread does them; a system that writes behind its programs hides some of that. The
whole model in the format of its library is gathered once more and written by one rank alone, the others wait.
Actor and critic are written in turn.

FSDP1 gathers its units for the state dict of shards. FSDP2 refers to the shards that there are, and each
tensor is copied as it is written. Megatron divides what is written evenly among all ranks, copies it through
page-locked memory and writes it in processes of its own; in the background, training goes on as soon as the
copies are made. Weights that leave through a bridge are the whole model, written by one rank.

Not counted: metadata, random states, deleting older checkpoints, and what lies in front of the storage.

Source: verl 0.9.1 ``utils/checkpoint/fsdp_checkpoint_manager.py`` and ``megatron_checkpoint_manager.py``
(``save_checkpoint``), ``trainer/ppo/ray_trainer.py`` (``_save_checkpoint``), torch ``serialization.py``
(``_save``: ``storage.cpu()``), Megatron-Core 0.15 ``dist_checkpointing/strategies/filesystem_async.py``,
``fully_parallel.py``.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from tuner.dtypes import DType
from tuner.field_marks import Seconds
from tuner.hardware import Cluster
from tuner.model_shape import ModelShape
from tuner.timing import assumptions as assume
from tuner.timing.communication import gather_seconds, latency_seconds
from tuner.timing.estimate import PhaseTime
from tuner.timing.rates import fresh_bytes_per_s
from tuner.timing.transfers import offloading_parts, pinned_seconds, trained_values, weights_held
from tuner.workload import Backend, Engine, Phase, Saving, Workload

_MOMENTS = 2
_WRITING = ("serializing", "storage")

Saved = tuple[ModelShape, Engine, Saving]


class SavingTime(Struct, frozen=True, kw_only=True):
    """What a checkpoint takes, each time that the job writes one."""

    waits: Annotated[PhaseTime, Meta(description="in which training stands still")]
    background_s: Annotated[Seconds, Meta(description="in which files are written while training goes on")]
    written_bytes: Annotated[int, Meta(description="of all ranks, every model that is saved")]
    every_steps: Annotated[int | None, Meta(description="null: at the end of the job alone")]

    @property
    def step_seconds(
        self,
    ) -> Annotated[float | None, Meta(description="spread over the steps from one checkpoint to the next")]:
        """What it comes to in a step, spread over those from one checkpoint to the next."""
        return None if self.every_steps is None else self.waits.seconds / self.every_steps


def storage_bytes_per_s(cluster: Cluster) -> float:
    """What a node writes to the storage; assumed where nobody says it."""
    return cluster.storage_bytes_per_s or assume.STORAGE_BYTES_PER_S


def saving_time(workload: Workload) -> SavingTime | None:
    """The seconds of a checkpoint of the job; None of a job that writes none."""
    cluster, saved = workload.cluster, tuple(_saved(workload))
    if not saved:
        return None
    waits: Counter[str] = Counter()
    background = written = 0.0
    for model, engine, saving in saved:
        shares = _shares(model, engine, saving, cluster)
        if saving.in_background:
            background += sum(shares.pop(name) for name in _WRITING)
        for parts in (shares, _alone(model, engine, saving, cluster), _offloaded(model, engine, cluster)):
            waits.update(parts)
        written += engine.parallel.gpus * rank_bytes(model, engine, saving)
        written += whole_model_bytes(model, engine) if _writes_alone(saving) else 0.0
    seconds = sum(waits.values())
    return SavingTime(
        waits=PhaseTime(phase=Phase.SAVE_CHECKPOINT, seconds=seconds, parts=tuple(waits.items())),
        background_s=background,
        written_bytes=round(written),
        every_steps=saved[0][2].every_steps,
    )


def _saved(workload: Workload) -> Iterator[Saved]:
    """The models that are written, one after the other."""
    if workload.actor.saving is not None:
        yield workload.model, workload.actor.engine, workload.actor.saving
    critic = workload.critic
    if critic is not None and critic.saving is not None:
        yield critic.model, critic.engine, critic.saving


def _trained(model: ModelShape, engine: Engine) -> int:
    return model.parameters if engine.lora is None else engine.lora.parameters


def weight_bytes(model: ModelShape, engine: Engine) -> float:
    """Weights in the file of a rank: its shard as it is stored.

    Of Megatron an even part of what it computes with, adapters alone where there are any.
    """
    if engine.backend is Backend.MEGATRON:
        return _trained(model, engine) * engine.compute_dtype.bytes / engine.parallel.gpus
    return weights_held(model, engine) * engine.stored_dtype.bytes


def _written_weights(model: ModelShape, engine: Engine, saving: Saving) -> float:
    """Weights in the file of a rank, of which FSDP may write those of adapters alone."""
    if saving.adapters_alone and engine.lora is not None:
        return trained_values(model, engine) * engine.stored_dtype.bytes
    return weight_bytes(model, engine)


def optimizer_bytes(model: ModelShape, engine: Engine) -> float:
    """Optimizer's states in the file of a rank: both moments; Megatron's main weights belong to them."""
    if engine.backend is Backend.MEGATRON:
        states = _MOMENTS * engine.optimizer_dtype.bytes + DType.FLOAT32.bytes
        return _trained(model, engine) * states / engine.parallel.gpus
    return trained_values(model, engine) * _MOMENTS * engine.optimizer_dtype.bytes


def rank_bytes(model: ModelShape, engine: Engine, saving: Saving) -> float:
    """What each rank writes."""
    joins = saving.joins_weights or not saving.weights
    weights = 0.0 if joins else _written_weights(model, engine, saving)
    return weights + (optimizer_bytes(model, engine) if saving.optimizer else 0.0)


def whole_model_bytes(model: ModelShape, engine: Engine) -> float:
    """What one rank writes of the whole model: as FSDP stores it, or as Megatron computes with it."""
    megatron = engine.backend is Backend.MEGATRON
    return model.parameters * (engine.compute_dtype if megatron else engine.stored_dtype).bytes


def _writes_alone(saving: Saving) -> bool:
    return saving.whole_model or (saving.weights and saving.joins_weights)


def _shares(model: ModelShape, engine: Engine, saving: Saving, cluster: Cluster) -> dict[str, float]:
    """Seconds by cause of the files that all ranks write at once."""
    written = rank_bytes(model, engine, saving)
    of_node = min(cluster.gpus_per_node, engine.parallel.gpus) * written
    parts = {
        "communication": _gathering_seconds(model, engine, saving, cluster),
        "serializing": written / assume.SERIALIZED_BYTES_PER_S,
        "storage": of_node / storage_bytes_per_s(cluster),
    }
    if engine.backend is Backend.MEGATRON:
        parts["serializing"] /= assume.MEGATRON_WRITERS
        return parts | {"states": pinned_seconds(written, cluster.gpu)}
    on_host = engine.optimizer_offload and saving.optimizer
    copied = written - (optimizer_bytes(model, engine) if on_host else 0.0)
    if saving.weights and saving.adapters_alone:  # all of them come to the host, and then some are left out
        copied += weight_bytes(model, engine) - _written_weights(model, engine, saving)
    copied = 0.0 if engine.streamed_offload else copied
    return parts | {"host_copies": copied / fresh_bytes_per_s(cluster.gpu)}


def _gathering_seconds(model: ModelShape, engine: Engine, saving: Saving, cluster: Cluster) -> float:
    """What is gathered so that ranks can write their parts: FSDP1's units, or Megatron's optimizer."""
    parallel = engine.parallel
    if engine.backend is Backend.FSDP and saving.weights and parallel.shard > 1:
        whole = model.parameters * engine.stored_dtype.bytes
        units = model.layers * latency_seconds(cluster, parallel.shard)
        return gather_seconds(whole, cluster, parallel.shard) + units
    if saving.optimizer and saving.gathers_optimizer and not saving.may_not_gather:
        ranks = parallel.data * parallel.context
        return gather_seconds(optimizer_bytes(model, engine) * ranks, cluster, ranks)
    return 0.0


def _alone(model: ModelShape, engine: Engine, saving: Saving, cluster: Cluster) -> dict[str, float]:
    """Seconds by cause of the whole model, which one rank writes while the others wait."""
    if not _writes_alone(saving):
        return {}
    parallel, written = engine.parallel, whole_model_bytes(model, engine)
    ranks = parallel.shard
    if engine.backend is Backend.MEGATRON:
        ranks = parallel.tensor * parallel.pipeline * max(1, parallel.expert // parallel.tensor)
    return {
        "communication": gather_seconds(written, cluster, ranks),
        "host_copies": written / fresh_bytes_per_s(cluster.gpu),
        "serializing": written / assume.SERIALIZED_BYTES_PER_S,
        "storage": written / storage_bytes_per_s(cluster),
    }


def _offloaded(model: ModelShape, engine: Engine, cluster: Cluster) -> dict[str, float]:
    """Seconds by cause of offloaded weights, which come to the card and leave it again."""
    if not engine.param_offload or engine.streamed_offload:
        return {}
    stored = weights_held(model, engine) * engine.stored_dtype.bytes
    return offloading_parts(stored, engine, cluster.gpu, comes=1, leaves=1)
