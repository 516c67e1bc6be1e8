"""Host memory per node that offloading costs."""

from tuner.memory.model_states import MOMENTS, shard, stored_parameters, trained_parameters
from tuner.memory.rollout import engine_weight_bytes
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, RolloutEngine, Workload


def engine_host_bytes(model: ModelShape, engine: Engine) -> int:
    r"""States of one GPU's engine that lie in host memory.

    .. math:: b_s N / W \;(\text{weights}) + 2 \, b_o N_t / W \;(\text{moments})

    Weights when they are offloaded between passes or streamed, moments when the optimizer is. A
    Megatron engine offloads its own slice by the same switches.
    """
    parameters = shard(stored_parameters(model, engine), engine)
    trained = shard(trained_parameters(model, engine), engine)
    if engine.backend is Backend.MEGATRON:
        parallel = engine.parallel
        parameters = stored_parameters(model, engine) // (
            parallel.tensor * parallel.pipeline * parallel.expert
        )
        trained = trained_parameters(model, engine) // parallel.gpus
    weights = parameters * engine.stored_dtype.bytes
    moments = trained * MOMENTS * engine.optimizer_dtype.bytes
    held = 0
    if engine.param_offload or engine.streamed_offload:
        held += weights
    if engine.optimizer_offload or (engine.streamed_offload and trained):
        held += moments
    return held


def host_bytes(workload: Workload) -> int:
    """Host memory of one node: offloaded actor, reference and critic, and the engine's own copies.

    A rollout engine that sleeps at level 1 copies its weights to the host, and so does SGLang.
    """
    per_gpu = engine_host_bytes(workload.model, workload.actor.engine)
    reference = workload.reference
    if reference is not None and reference.separate:
        frozen = shard(workload.model.parameters, reference.engine) * reference.engine.stored_dtype.bytes
        per_gpu += frozen if reference.engine.streamed_offload or reference.engine.param_offload else 0
    if workload.critic is not None:
        per_gpu += engine_host_bytes(workload.critic.model, workload.critic.engine)
    rollout = workload.rollout
    copies = rollout.engine is RolloutEngine.SGLANG or rollout.sleep_level == 1
    if rollout.frees_memory and copies:
        per_gpu += engine_weight_bytes(workload)
    return per_gpu * workload.cluster.gpus_per_node
