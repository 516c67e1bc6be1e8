"""Pipeline stages: which layers each has, and how many micro-batches it holds at once."""

from functools import lru_cache
from typing import TypeVar

from msgspec.structs import replace

from tuner.model_shape import ModelShape
from tuner.workload import (
    Actor,
    Critic,
    Engine,
    Parallelism,
    Reference,
    Service,
    ServiceRole,
    StepPass,
    Workload,
)
from tuner.workload.passes import step_passes


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


@lru_cache(maxsize=256)
def candidates(workload: Workload) -> tuple[Workload, ...]:
    """A job as seen from each stage that can be the fullest.

    The first has the embedding and the most micro-batches in flight, the last has the head. Those
    between them differ only in their layers: of all that have the same ones the earliest is fullest.
    """
    stages = deepest_pipeline(workload)
    return tuple(_seen_from(workload, stage, stages) for stage in _fullest(workload, stages))


def passes_of_candidates(workload: Workload) -> tuple[tuple[StepPass, ...], ...]:
    """The passes of a job as seen from each of :func:`candidates`."""
    stages = deepest_pipeline(workload)
    if stages == 1:
        return (workload.passes(),)
    return _seen_passes(
        workload.model,
        workload.actor,
        workload.reference,
        workload.critic,
        workload.services,
        _fullest(workload, stages),
        stages,
        generates=workload.rollout is not None,
    )


def _fullest(workload: Workload, stages: int) -> tuple[int, ...]:
    return _unlike_stages(workload.model, workload.actor.engine.parallel, stages)


@lru_cache(maxsize=256)
def _unlike_stages(model: ModelShape, parallel: Parallelism, stages: int) -> tuple[int, ...]:
    if stages == 1:
        return (0,)
    chosen = {0, stages - 1}
    kinds: set[tuple[tuple[bool, ...], ...]] = set()
    for stage in range(1, stages - 1):
        layers = stage_layers(model, parallel, stage * parallel.pipeline // stages)
        kind = tuple(sorted(model.kind(layer) for layer in layers))
        if kind not in kinds:
            kinds.add(kind)
            chosen.add(stage)
    return tuple(sorted(chosen))


def _seen_from(workload: Workload, stage: int, stages: int) -> Workload:
    if stages == 1:
        return workload
    reference, critic = workload.reference, workload.critic
    return replace(
        workload,
        actor=_at_stage(workload.actor, stage, stages),
        reference=None if reference is None else _at_stage(reference, stage, stages),
        critic=None if critic is None else _at_stage(critic, stage, stages),
        services=tuple(_service_at_stage(service, stage, stages) for service in workload.services),
    )


@lru_cache(maxsize=256)  # jobs that differ in their rollout engine alone have the same
def _seen_passes(
    model: ModelShape,
    actor: Actor,
    reference: Reference | None,
    critic: Critic | None,
    services: tuple[Service, ...],
    chosen: tuple[int, ...],
    stages: int,
    *,
    generates: bool,
) -> tuple[tuple[StepPass, ...], ...]:
    reward = next((one for one in services if one.role is ServiceRole.REWARD), None)
    return tuple(
        step_passes(
            model,
            _at_stage(actor, stage, stages),
            None if reference is None else _at_stage(reference, stage, stages),
            None if critic is None else _at_stage(critic, stage, stages),
            None if reward is None else _service_at_stage(reward, stage, stages),
            generates=generates,
        )
        for stage in chosen
    )


_Role = TypeVar("_Role", Actor, Reference, Critic)


def _at_stage(role: _Role, stage: int, stages: int) -> _Role:
    return replace(role, engine=at_stage(role.engine, stage, stages))


def _service_at_stage(service: Service, stage: int, stages: int) -> Service:
    if service.engine is None:
        return service
    return replace(service, engine=at_stage(service.engine, stage, stages))
