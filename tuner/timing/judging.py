"""Seconds of a reward model that an inference engine serves on the trainer's GPUs."""

from math import ceil

from msgspec import Struct

from tuner.hardware import Cluster
from tuner.model_shape import ModelShape
from tuner.timing import assumptions as assume
from tuner.timing.decode import RolloutInput, arithmetic_seconds, reduction_seconds, weight_read_bytes
from tuner.timing.layer import average_layer, visible_keys
from tuner.timing.rates import decode_bytes_per_s
from tuner.timing.transfers import pinned_seconds
from tuner.workload import Batch, Rollout, Workload


class JudgeInput(Struct, frozen=True, kw_only=True):
    """What the time of a reward model depends on."""

    model: ModelShape
    cluster: Cluster
    batch: Batch
    server: Rollout


def judges(workload: Workload) -> JudgeInput | None:
    """The reward model on an inference engine that shares the GPUs; None where there is none.

    On GPUs of its own it judges while responses are written, and adds nothing to the step.
    """
    reward = workload.reward
    if reward is None or reward.server is None or reward.model is None or not reward.shares_gpus:
        return None
    return JudgeInput(
        model=reward.model, cluster=workload.cluster, batch=workload.batch, server=reward.server
    )


def judging_parts(inputs: JudgeInput) -> dict[str, float]:
    """Seconds by cause: prompts with their responses are read once, in full steps of the engine.

    All that are generated are, those of groups that a filter drops afterwards too. Its weights come from the
    host before that and go back after it, in each round of generation. Not counted: what a model writes that
    generates its verdict, and the requests themselves.
    """
    server, gpu = inputs.server, inputs.cluster.gpu
    engine = RolloutInput(model=inputs.model, cluster=inputs.cluster, batch=inputs.batch, rollout=server)
    mean = inputs.batch.mean_sequence_tokens
    generated = inputs.batch.generated_sequences * inputs.batch.generated_share
    sequences = ceil(round(generated / server.replicas / server.data_parallel, 6))
    chunk = min(float(server.max_batched_tokens), sequences * mean)
    chunks = sequences * mean / chunk
    arithmetic = arithmetic_seconds(engine, chunk, visible_keys(average_layer(inputs.model), mean))
    reading = weight_read_bytes(engine, chunk) / decode_bytes_per_s(gpu)
    return {
        "prefill": chunks * max(arithmetic, reading),
        "communication": chunks * reduction_seconds(engine, chunk),
        "engine": chunks * assume.ENGINE_STEP_S,
        "states": inputs.batch.filter_rounds * _moving_seconds(inputs),
    }


def _moving_seconds(inputs: JudgeInput) -> float:
    """Weights that an engine keeps on the host while it sleeps, there and back."""
    server = inputs.server
    if not server.frees_memory or server.sleep_level != 1:
        return 0.0
    split = max(server.tensor_parallel, server.expert_parallel) * server.pipeline_parallel
    weight_bytes = inputs.model.parameters * server.weight_dtype.bytes / split
    return 2 * pinned_seconds(weight_bytes, inputs.cluster.gpu)
