"""Axes of the layout: over which GPUs the trainer's models and the rollout engine are cut."""

from collections.abc import Iterator

from msgspec.structs import replace

from tuner.batching import divisors
from tuner.model_shape import ModelShape
from tuner.plan.axes import Axis, axis
from tuner.rules.rollout_engine import tensor_sizes
from tuner.workload import Backend, Engine, Parallelism, Workload

_MOST_PIPELINE = 16
_MOST_CONTEXT = 8
_PIECES = (1, 2)  # of a pipeline stage
_ENGINE_DATA = (1, 2, 4, 8)  # ranks of an engine that share experts


def layout_axes(workload: Workload) -> Iterator[Axis]:
    """The parallel sizes of the policy, of a critic that has its own, and of the rollout engine."""
    yield axis("layout", workload, _policy_layouts(workload), layout=True)
    critic = workload.critic
    if critic is not None and critic.engine.backend is not Backend.MEGATRON:
        yield axis("critic-layout", workload, _critic_layouts(workload), layout=True)
    if workload.rollout is not None and not workload.rollout.is_trainer:
        yield axis("engine-layout", workload, _engine_layouts(workload), layout=True)


def undivided(workload: Workload) -> Workload:
    """The job with every model whole: no tensor, pipeline, context or sequence parallelism."""

    def uncut(engine: Engine) -> Engine:
        now = engine.parallel
        ones = dict.fromkeys(("ulysses", "tensor", "pipeline", "context", "expert", "expert_tensor"), 1)
        return replace(engine, parallel=replace(now, **ones, virtual_pipeline=1))

    changed = workload.with_actor(engine=uncut(workload.actor.engine))
    if workload.reference is not None:
        changed = changed.with_reference(engine=uncut(workload.reference.engine))
    if workload.critic is not None:
        changed = changed.with_critic(engine=uncut(workload.critic.engine))
    rollout = workload.rollout
    if rollout is None or rollout.is_trainer:
        return changed
    experts = {"expert_parallel": rollout.data_parallel} if rollout.expert_parallel > 1 else {}
    return changed.with_rollout(tensor_parallel=1, **experts)


def _policy_layouts(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """The actor with its reference; under Megatron the critic lies on the same grid."""
    engine = workload.actor.engine
    for parallel in _sizes(workload, engine, workload.model):
        changed = workload.with_actor_engine(parallel=parallel)
        for role in ("reference", "critic"):
            other = getattr(workload, role)
            alike = other is not None and other.engine.backend is engine.backend
            if alike and (role == "reference" or engine.backend is Backend.MEGATRON):
                laid = replace(other.engine, parallel=parallel)
                changed = replace(changed, **{role: replace(other, engine=laid)})
        if parallel.virtual_pipeline == 1 or parallel == engine.parallel or _interleaves(changed):
            yield _text(parallel, engine.backend), changed


def _interleaves(workload: Workload) -> bool:
    """Whether the micro-batches of every pass are a multiple of the stages, as interleaved ones have to be.

    Where a budget makes them, verl rounds their number up, for which a rank needs as many sequences.

    Source: verl 0.4.0 to 0.9.1 ``utils/seqlen_balancing.py`` (``rearrange_micro_batches``:
    ``num_batches_divided_by``).
    """
    batch = workload.batch
    laid = [one for one in workload.passes() if one.engine.backend is Backend.MEGATRON]
    return all(
        one.batching.dynamic and one.rank_mini_batch_sequences(batch) >= one.engine.parallel.pipeline
        for one in laid
    )


def _critic_layouts(workload: Workload) -> Iterator[tuple[str, Workload]]:
    critic = workload.critic
    if critic is None:
        return
    for parallel in _sizes(workload, critic.engine, critic.model):
        laid = replace(critic.engine, parallel=parallel)
        yield _text(parallel, critic.engine.backend), workload.with_critic(engine=laid)


def _sizes(workload: Workload, engine: Engine, model: ModelShape) -> Iterator[Parallelism]:
    """The layouts of an engine that divide its GPUs, and the model with them."""
    if engine.backend is Backend.MEGATRON:
        yield from _grids(workload, engine.parallel, model)
    elif engine.backend in (Backend.FSDP, Backend.FSDP2):
        now = engine.parallel
        for ulysses in _sequence_splits(workload, engine, model):
            for shard in divisors(now.gpus):
                if shard > 1 or now.gpus == 1:
                    yield replace(now, ulysses=ulysses, shard=shard)


def _sequence_splits(workload: Workload, engine: Engine, model: ModelShape) -> list[int]:
    """Numbers of GPUs that may share a sequence: they divide heads and GPUs, and stay in a node."""
    return [
        ranks
        for ranks in range(1, min(workload.cluster.gpus_per_node, engine.parallel.gpus) + 1)
        if engine.parallel.gpus % ranks == 0
        and model.heads % ranks == 0
        and (model.kv_heads % ranks == 0 or ranks % model.kv_heads == 0)
    ]


def _grids(workload: Workload, now: Parallelism, model: ModelShape) -> Iterator[Parallelism]:
    """Megatron's grids: tensor within a node, stages of as many layers, experts over what is left."""
    gpus, placed = now.gpus, (now.first_stage_layers, now.last_stage_layers) != (None, None)
    follows = now.expert_tensor == now.tensor  # where nothing is said of it
    for tensor in divisors(model.heads):
        if tensor > workload.cluster.gpus_per_node or gpus % tensor:
            continue
        for pipeline in (now.pipeline,) if placed else divisors(model.layers):
            for context in divisors(gpus):
                parts = tensor * pipeline * context
                if pipeline > _MOST_PIPELINE or context > _MOST_CONTEXT or gpus % parts:
                    continue
                yield from _expert_grids(now, model, tensor, pipeline, context, follows=follows)


def _expert_grids(
    now: Parallelism, model: ModelShape, tensor: int, pipeline: int, context: int, *, follows: bool
) -> Iterator[Parallelism]:
    for pieces in _pieces(now, model, pipeline):
        grid = replace(now, tensor=tensor, pipeline=pipeline, context=context, virtual_pipeline=pieces)
        if model.moe is None:
            yield replace(grid, expert_tensor=tensor) if follows else grid
            continue
        tensors = (
            (1, now.expert_tensor, tensor) if pieces == 1 else (tensor if follows else now.expert_tensor,)
        )
        for expert_tensor in dict.fromkeys(tensors):
            for expert in divisors(model.moe.experts):
                if now.gpus % (expert * expert_tensor * pipeline) == 0:
                    yield replace(grid, expert=expert, expert_tensor=expert_tensor)


def _pieces(now: Parallelism, model: ModelShape, pipeline: int) -> list[int]:
    """Pieces of as many layers that each stage may be cut into, which its pipeline goes through in turn."""
    sizes = sorted({*_PIECES, now.virtual_pipeline}) if pipeline > 1 else [1]
    whole = [size for size in sizes if model.layers % (pipeline * size) == 0]
    return whole or [1]


def _engine_layouts(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """The engine's tensor parallelism; with experts their parallelism as well, where the engine has it.

    Not its stages: verl refuses more than one with every engine.
    """
    rollout, sparse = workload.generator, workload.model.moe is not None
    node_gpus = rollout.node_gpus or workload.cluster.gpus_per_node
    for data in _ENGINE_DATA if sparse else (rollout.data_parallel,):
        side_by_side = replace(rollout, data_parallel=data)
        for tensor in tensor_sizes(workload.model, side_by_side, node_gpus):
            for expert in dict.fromkeys((1, tensor * data)) if sparse else (rollout.expert_parallel,):
                changes = {"tensor_parallel": tensor, "data_parallel": data, "expert_parallel": expert}
                yield f"TP {tensor} DP {data} EP {expert}", workload.with_rollout(**changes)


def _text(parallel: Parallelism, backend: Backend) -> str:
    if backend is Backend.MEGATRON:
        sizes = {
            "TP": parallel.tensor,
            "PP": parallel.pipeline,
            "VPP": parallel.virtual_pipeline,
            "CP": parallel.context,
            "EP": parallel.expert,
        }
        named = [f"{name} {size}" for name, size in sizes.items() if size > 1]
        return " ".join(named) or "TP 1"
    return f"SP {parallel.ulysses}, shards of {parallel.shard}"
