"""Pipeline stages: which layers each has, and how many micro-batches it holds at once."""

from functools import lru_cache

from msgspec.structs import replace

from tuner.model_shape import ModelShape
from tuner.workload import Engine, Parallelism, Workload


@lru_cache(maxsize=256)
def stage_sizes(layers: int, parallel: Parallelism) -> tuple[int, ...]:
    r"""Layers of each pipeline stage.

    .. math:: L_0, \; \frac{L - L_0 - L_{P-1}}{P - 2}, \ldots, \; L_{P-1}

    A first or last stage that is given a size of its own keeps it, the rest is dealt out evenly.
    Where that does not come out even Megatron refuses to start; here the first stages take one
    layer more. A layout that is written out layer by layer is not read.

    Source: Megatron-Core ``transformer/transformer_block.py`` (``get_num_layers_to_build``).
    """
    stages = parallel.pipeline
    end_sizes = {0: parallel.first_stage_layers, stages - 1: parallel.last_stage_layers} if stages > 1 else {}
    fixed_sizes = {stage: size for stage, size in end_sizes.items() if size is not None}
    open_stages = [stage for stage in range(stages) if stage not in fixed_sizes]
    rest = max(0, layers - sum(fixed_sizes.values()))
    sizes = dict(fixed_sizes)
    for position, stage in enumerate(open_stages):
        sizes[stage] = rest // len(open_stages) + (position < rest % len(open_stages))
    return tuple(sizes[stage] for stage in range(stages))


@lru_cache(maxsize=1024)
def stage_layers(model: ModelShape, parallel: Parallelism, stage: int) -> tuple[int, ...]:
    """Indices of the layers of one stage.

    Interleaved (virtual) stages take every :math:`P`-th piece of the model.
    """
    sizes = stage_sizes(int(model.layers), parallel)
    pieces = parallel.virtual_pipeline
    if pieces > 1 and len(set(sizes)) == 1 and sizes[0] % pieces == 0:
        size = sizes[0] // pieces
        starts = [(piece * parallel.pipeline + stage) * size for piece in range(pieces)]
        return tuple(start + i for start in starts for i in range(size))
    begin = sum(sizes[:stage])
    return tuple(range(begin, min(model.layers, begin + sizes[stage])))


def in_flight(parallel: Parallelism, stage: int, micro_batches: int) -> float:
    r"""Micro-batches whose activations a stage holds at once, in activations of its whole stage.

    .. math:: \min(m, \; P - p)
       \qquad\text{interleaved:}\qquad
       \min\Bigl(m, \; \frac{2 (P - p - 1) + (v - 1) P + 1}{v}\Bigr)

    One forward and one backward pass in turn, after as many forward passes as there are stages
    behind this one. Interleaving with :math:`v` pieces holds more: pieces of micro-batches, each
    :math:`1 / v` of the stage.

    Source: Megatron-Core ``pipeline_parallel/schedules.py`` (``num_warmup_microbatches`` of both
    schedules).
    """
    behind = parallel.pipeline - stage - 1
    pieces = parallel.virtual_pipeline
    if pieces == 1 or parallel.pipeline == 1:
        return float(min(micro_batches, behind + 1))
    warm_up = 2 * behind + (pieces - 1) * parallel.pipeline
    return min(float(micro_batches), (warm_up + 1) / pieces)


@lru_cache(maxsize=256)  # the same engine for the same question: its hash is kept
def at_stage(engine: Engine, stage: int, stages: int) -> Engine:
    """An engine seen from one of ``stages`` stages; engines of other depths from the same GPUs."""
    own = engine.parallel.pipeline
    return replace(engine, parallel=replace(engine.parallel, stage=stage * own // stages))


def deepest_pipeline(workload: Workload) -> int:
    """Stages of the deepest pipeline among the engines of a job, 1 without one."""
    engines = [workload.actor.engine]
    if workload.critic is not None:
        engines.append(workload.critic.engine)
    engines += [service.engine for service in workload.services if service.engine is not None]
    return max(engine.parallel.pipeline for engine in engines)


def candidates(workload: Workload) -> tuple[Workload, ...]:
    """A job as seen from each stage that can be the fullest.

    The first has the embedding and the most micro-batches in flight, the last has the head. Those
    between them differ only in their layers: of all that have the same ones the earliest is fullest.
    """
    stages = deepest_pipeline(workload)
    if stages == 1:
        return (workload,)
    chosen = _unlike_stages(workload.model, workload.actor.engine.parallel, stages)
    return tuple(_seen_from(workload, stage, stages) for stage in chosen)


@lru_cache(maxsize=256)
def _unlike_stages(model: ModelShape, parallel: Parallelism, stages: int) -> tuple[int, ...]:
    chosen = {0, stages - 1}
    kinds: set[tuple[int, int]] = set()
    for stage in range(1, stages - 1):
        layers = stage_layers(model, parallel, stage * parallel.pipeline // stages)
        kind = (len(layers), sum(model.is_sparse(layer) for layer in layers))
        if kind not in kinds:
            kinds.add(kind)
            chosen.add(stage)
    return tuple(sorted(chosen))


def _seen_from(workload: Workload, stage: int, stages: int) -> Workload:
    stage_workload = workload.with_actor_engine(
        parallel=at_stage(workload.actor.engine, stage, stages).parallel
    )
    if workload.reference is not None:
        stage_workload = stage_workload.with_reference(
            engine=at_stage(workload.reference.engine, stage, stages)
        )
    if workload.critic is not None:
        stage_workload = stage_workload.with_critic(engine=at_stage(workload.critic.engine, stage, stages))
    return replace(
        stage_workload,
        services=tuple(
            service
            if service.engine is None
            else replace(service, engine=at_stage(service.engine, stage, stages))
            for service in workload.services
        ),
    )
