"""The grid of GPUs that Megatron lays a model on: what divides it, and how many layers a stage has."""

from tuner.language import _
from tuner.trainers.fields import Assignments, Field, Ruled
from tuner.trainers.verl.fields.role import EngineContext
from tuner.trainers.verl.source import Role
from tuner.workload import Engine, Parallelism


def _size(
    path: str, leaf: str, *, default_of: str | None = None, within: str | None = None
) -> Ruled[EngineContext]:
    """A size of the grid; the legacy workers put the reference and the critic on the actor's.

    Models that share a process have one grid: a size that is set for one of them is set for all.

    Args:
        path: its field.
        leaf: its key in a model's section.
        default_of: another key, whose value it has where nothing is said.
        within: another key, without whose division it is 1.
    """

    def read(context: EngineContext) -> int:
        source, section = context.source, f"{context.grid_role}.megatron"
        default = 1 if default_of is None else source.integer(f"{section}.{default_of}", default=1)
        size = source.integer(f"{section}.{leaf}", default=default)
        divided = within is None or source.integer(f"{section}.{within}", default=1) > 1
        return size if divided else 1

    def assignments(context: EngineContext, engine: Engine) -> Assignments:
        source, size = context.source, getattr(engine.parallel, path)
        keys = {role: source.key(f"{role}.megatron.{leaf}") for role in _SHARING}
        given = [role for role, key in keys.items() if key is not None and source.settings.is_set(key)]
        roles = dict.fromkeys(
            ("actor", *given, context.grid_role)
        )  # those that follow the actor's come later
        return tuple((f"{role}.megatron.{leaf}", size) for role in roles)

    return Ruled(f"parallel.{path}", read, assignments)


_SHARING: tuple[Role, ...] = ("ref", "critic")  # beside the actor
_TENSOR, _PIPELINE = "tensor_model_parallel_size", "pipeline_model_parallel_size"

GRID: tuple[Field[EngineContext], ...] = (
    _size("tensor", _TENSOR),
    _size("pipeline", _PIPELINE),
    _size("virtual_pipeline", "virtual_pipeline_model_parallel_size", within=_PIPELINE),
    _size("context", "context_parallel_size"),
    _size("expert", "expert_model_parallel_size"),
    _size("expert_tensor", "expert_tensor_parallel_size", default_of=_TENSOR),
)


def read_grid(context: EngineContext, sizes: dict[str, int]) -> Parallelism:
    """The grid with sizes as :data:`GRID` reads them.

    Raises:
        InputError: they exceed the GPUs that are named beside the settings, but not those of the settings.
    """
    _expect_named_gpus(context, sizes)
    first, last = _end_stages(context, sizes["pipeline"])
    return Parallelism(gpus=context.gpus, **sizes, first_stage_layers=first, last_stage_layers=last)


def _expect_named_gpus(context: EngineContext, sizes: dict[str, int]) -> None:
    """Refuse GPUs that are named beside the settings and too few for these, which have enough.

    Of settings that ask for more than their own GPUs a check says that Megatron refuses them.
    """
    source = context.source
    dense = sizes["tensor"] * sizes["pipeline"] * sizes["context"]
    sparse = sizes["expert"] * sizes["expert_tensor"] * sizes["pipeline"]
    own = source.integer("gpus_per_node", default=8) * source.integer("nodes", default=1)
    if max(dense, sparse) <= context.gpus or max(dense, sparse) > own:
        return
    raise source.error(
        f"{context.grid_role}.megatron.{_TENSOR}",
        _(
            "tensor {tensor} x pipeline {pipeline} x context {context} (experts: {expert} x "
            "{expert_tensor} x {pipeline}) need more than the {gpus} GPUs that are named"
        ).format(**sizes, gpus=context.gpus),
        hint=_("the configuration has {gpus}: give as many, or lower the parallel sizes").format(gpus=own),
    )


def _end_stages(context: EngineContext, pipeline: int) -> tuple[int | None, int | None]:
    """Layers of the first and of the last pipeline stage, None where they are dealt out like the others.

    Embedding and loss can also be asked to count as a layer each.
    """
    if pipeline == 1:
        return None, None
    source = context.source
    prefix = f"{context.configured_role}.megatron.override_transformer_config"
    embedding = source.flag(f"{prefix}.account_for_embedding_in_pipeline_split")
    loss = source.flag(f"{prefix}.account_for_loss_in_pipeline_split")
    if embedding or loss:
        layers = -(-(context.model.layers + embedding + loss) // pipeline)
        return layers - embedding, layers - loss
    first = source.integer(f"{prefix}.num_layers_in_first_pipeline_stage")
    return first, source.integer(f"{prefix}.num_layers_in_last_pipeline_stage")
