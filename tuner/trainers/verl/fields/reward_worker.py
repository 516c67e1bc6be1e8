"""Reads the trainer's engine that runs a reward model, up to 0.7.0."""

from tuner.dtypes import DType
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.trainers.verl.batch_fields import TOKEN_BYTES
from tuner.trainers.verl.fields.megatron import read_megatron
from tuner.trainers.verl.fields.role import EngineContext, read_backend
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Backend, Checkpointing, Engine, Parallelism


def read_reward_engine(source: ReleaseSettings, model: ModelShape, gpus: int) -> Engine:
    """The engine of the reward model's worker.

    Raises:
        InputError: a value has the wrong type, or the parallel sizes exceed the GPUs.
        UnsupportedError: the strategy is one that is not modelled.
    """
    backend = read_backend(source, "reward")
    if backend is Backend.MEGATRON:
        context = EngineContext(source=source, role="reward", backend=backend, model=model, gpus=gpus)
        return read_megatron(context)
    return _fsdp(source, backend, gpus)


def _fsdp(source: ReleaseSettings, backend: Backend, gpus: int) -> Engine:
    """Weights in bfloat16 that live on the host, whatever ``param_offload`` says, which is not read.

    After scoring the root is resharded under FSDP1.

    Source: verl 0.6.1 ``workers/fsdp_workers.py`` (``RewardModelWorker``: ``CPUOffload``,
    ``CPUOffloadPolicy``, ``compute_rm_score``).
    """
    second = backend is Backend.FSDP2
    return Engine(
        token_bytes=TOKEN_BYTES,
        backend=backend,
        parallel=_parallel(source, gpus),
        stored_dtype=DType.BFLOAT16,
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=Checkpointing.NONE,
        packed=source.flag("reward.packed"),
        streamed_offload=True,
        reshard_after_forward=not second or source.flag("reward.fsdp.reshard_after_forward", default=True),
        keeps_root=second and not source.since("0.6.0"),  # released for torch 2.6
        frees_root=not second,
        forward_prefetch=source.flag("reward.fsdp.forward_prefetch"),
        prefetch_effective=not second,
    )


def _parallel(source: ReleaseSettings, gpus: int) -> Parallelism:
    size = source.integer("reward.fsdp.fsdp_size", default=-1, minimum=-1)
    ulysses = source.integer("reward.ulysses", default=1)
    if ulysses > gpus:
        raise source.error(
            "reward.ulysses",
            _("{ulysses} ranks share a sequence, but the job has {gpus} GPUs").format(
                ulysses=ulysses, gpus=gpus
            ),
        )
    return Parallelism(gpus=gpus, shard=gpus if size < 1 else min(size, gpus), ulysses=ulysses)
