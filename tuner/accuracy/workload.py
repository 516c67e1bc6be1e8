"""From a measured pass to the workload that it is a pass of."""

from msgspec.structs import replace

from tuner.accuracy.measured_files import MeasuredCase
from tuner.architectures import find_architecture
from tuner.dtypes import DType, parse_dtype
from tuner.gpus import find_gpu
from tuner.hardware import Cluster
from tuner.model_shape import ModelShape
from tuner.models import find_config, find_model, shape_from_config
from tuner.models.adapters import ALL_LINEAR, count_adapters
from tuner.models.shape import cut_config
from tuner.trainers.registry import DEFAULT as TRAINER
from tuner.units import GIB
from tuner.workload import (
    ENTROPY_CHUNK_TOKENS,
    Actor,
    Backend,
    Batch,
    Batching,
    Checkpointing,
    Engine,
    FractionOf,
    HeadKind,
    Images,
    Lora,
    OutputHead,
    Parallelism,
    Pass,
    Release,
    Rollout,
    RolloutEngine,
    Scaling,
    Travel,
    WeightSync,
    Workload,
)

_GPU = "h200"  # what PyTorch's allocator hands out does not depend on the card
#: Fused heads by what a recorded pass calls them.
FUSED_KERNELS = {
    "torch": HeadKind.FUSED_TORCH,
    "triton": HeadKind.FUSED_TRITON,
    "tuner": HeadKind.FUSED_TUNER,
}


def workload_of(case: MeasuredCase, model: ModelShape | None = None) -> Workload:
    """The workload, with the behaviour of the trainer's newest release.

    Its update and its log-probabilities are the same micro-batch; nothing but the actor is on the GPU.
    A critic stands in the actor's place, with the model that a critic is read with.

    Args:
        case: the measured pass.
        model: its dimensions, where they are known already; None: those that its name stands for.

    Raises:
        InputError: nothing is known of the model.
        UnsupportedError: the model is of a type that is not modelled.
    """
    model = _model(case) if model is None else model
    one_pass = Pass(
        batching=Batching(dynamic=False, token_budget=case.tokens, micro_batch_sequences=case.sequences),
        entropy=case.calculate_entropy,
    )
    return Workload(
        release=Release(trainer=TRAINER.name, version=TRAINER.bundled.versions[-1]),
        model=model,
        cluster=Cluster(gpu=find_gpu(_GPU), gpus_per_node=case.world_size, nodes=1, network_bytes_per_s=1.0),
        batch=_batch(case, model),
        actor=Actor(engine=_engine(case, model), head=_head(case), update=one_pass, log_prob=one_pass),
        reference=None,
        critic=None,
        rollout=_rollout_elsewhere(case),
        sync=WeightSync(bucket_bytes=2 * GIB, gathers_whole_model=False),
    )


def _model(case: MeasuredCase) -> ModelShape:
    model = find_model(case.model) if case.layers is None else _cut(case.model, case.layers)
    if case.critic and find_architecture(model.architecture).token_classification:
        return replace(model, value_head=True)
    return model


def _cut(name: str, layers: int) -> ModelShape:
    """The first layers of a model."""
    config = find_config(name)
    whole = shape_from_config(config.values, name=name, source=config.source)
    return shape_from_config(
        cut_config(config.values, min(layers, whole.layers)), name=name, source=config.source
    )


def _batch(case: MeasuredCase, model: ModelShape) -> Batch:
    mini_batch = case.sequences * case.micro_batches * (case.world_size // case.ulysses)
    images, half = _images(case, model), case.sequence_length // 2
    prompt = half if images is None else max(half, min(images.tokens, case.sequence_length - 1))
    return Batch(
        prompts=mini_batch,
        responses_per_prompt=1,
        mini_batch_prompts=mini_batch,
        epochs=1,
        max_prompt_tokens=prompt,
        max_response_tokens=case.sequence_length - prompt,
        travel=Travel.OWN,  # no driver sends it
        images=images,
    )


def _images(case: MeasuredCase, model: ModelShape) -> Images | None:
    """The images of every prompt; None without, or where the tower's dimensions are not known."""
    if not case.images_per_prompt or model.tower is None:
        return None
    tokens = case.images_per_prompt * model.tower.tokens_of(case.image_pixels)
    return Images(
        per_prompt=case.images_per_prompt,
        pixels=case.image_pixels,
        tokens=tokens,
        least_tokens=tokens,
        most_tokens=tokens,
    )


def _engine(case: MeasuredCase, model: ModelShape) -> Engine:
    reader = TRAINER.runs
    assert reader is not None  # of the trainer whose passes are measured
    return reader.engine_of_pass(_recorded_engine(case, model), model, images=bool(case.images_per_prompt))


def _recorded_engine(case: MeasuredCase, model: ModelShape) -> Engine:
    """What the record of a pass says of its engine."""
    stored = parse_dtype(case.model_dtype)
    return Engine(
        token_bytes=TRAINER.token_bytes,
        backend=Backend(case.strategy),
        parallel=Parallelism(gpus=case.world_size, shard=case.shard, ulysses=case.ulysses),
        stored_dtype=stored,
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=stored,
        checkpointing=Checkpointing.FULL if case.gradient_checkpointing else Checkpointing.NONE,
        packed=True,
        fused_layers=case.use_liger,
        activation_offload=case.activation_offload,
        param_offload=case.param_offload,
        optimizer_offload=case.optimizer_offload,
        streamed_offload=case.forward_only_engine,
        reshard_after_forward=case.reshard_after_forward,
        frees_root=(case.fsdp_size or 0) > 1,
        forward_prefetch=case.forward_prefetch,
        reads_positions=case.reads_positions,
        frozen_tower=case.frozen_tower,
        deferred_gradient_sync=case.deferred_gradient_sync,
        lora=_lora(case, model),
    )


def _lora(case: MeasuredCase, model: ModelShape) -> Lora | None:
    if not case.lora_rank:
        return None
    counts = count_adapters(model, rank=case.lora_rank, target=ALL_LINEAR, experts=False)
    return Lora(
        rank=case.lora_rank,
        parameters=counts.parameters,
        matrices=counts.matrices,
    )


def _head(case: MeasuredCase) -> OutputHead:
    if case.critic:
        return OutputHead(kind=HeadKind.VALUE)
    return OutputHead(
        kind=HeadKind.LOGITS if case.fused_kernels is None else FUSED_KERNELS[case.fused_kernels],
        compiled=case.use_torch_compile,
        chunk_tokens=ENTROPY_CHUNK_TOKENS if case.entropy_chunking else None,
        checkpointed=case.entropy_checkpointing,
        scaling=Scaling.NONE if case.temperature == 1.0 else Scaling.COPY,
    )


def _rollout_elsewhere(case: MeasuredCase) -> Rollout:
    return Rollout(
        engine=RolloutEngine.VLLM,
        memory_fraction=0.5,
        fraction_of=FractionOf.TOTAL,
        tensor_parallel=1,
        max_sequences=1,
        max_batched_tokens=case.sequence_length,
        max_model_tokens=None,
        cuda_graphs=False,
        colocated=False,
        gpus=case.world_size,
    )
