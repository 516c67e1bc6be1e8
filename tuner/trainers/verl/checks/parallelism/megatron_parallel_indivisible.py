"""Megatron sizes that do not divide the job or the model

What it checks
--------------
Under Megatron, for the actor and the critic: tensor times pipeline times context parallelism against the GPUs; expert times expert-tensor times pipeline parallelism against the GPUs; attention heads against the tensor-parallel size; layers against the pipeline stages; experts against the expert-parallel size.

Why it matters
--------------
verl asserts the first when batches are static, and Megatron asserts all of them while it starts, on every rank at once.

When it does not apply
----------------------
Layers need not divide where ``override_transformer_config`` places them unevenly: ``num_layers_in_first_pipeline_stage``, ``num_layers_in_last_pipeline_stage``, ``account_for_embedding_in_pipeline_split``, ``account_for_loss_in_pipeline_split`` or ``pipeline_model_parallel_layout``.

Sources
-------
verl 0.9.1 ``utils/config.py:103-116``, verl 0.4.1 ``trainer/ppo/ray_trainer.py:367-371``.
Megatron-Core ``parallel_state.py`` (``initialize_model_parallel``) and ``transformer/transformer_config.py``.
"""

from collections.abc import Iterator

from tuner.counted import counted
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.model_shape import ModelShape
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC
from tuner.workload import Backend, Engine, Workload

RULE = Rule(
    code="CFG117",
    name="megatron-parallel-indivisible",
    summary=N_("Megatron parallel sizes that do not divide the GPUs, heads, layers or experts"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

REFUSED_BY = RefusedBy.MEGATRON

_UNEVEN = ("num_layers_in_", "account_for_", "pipeline_model_parallel_layout")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """At most one finding per role, for the first size that does not divide."""
    yield from _role(ACTOR, workload.actor.engine, workload.model, settings, workload)
    if workload.critic is not None:
        yield from _role(CRITIC, workload.critic.engine, workload.critic.model, settings, workload)


def _role(
    section: str, engine: Engine, model: ModelShape, settings: Settings, workload: Workload
) -> Iterator[Finding]:
    if engine.backend is not Backend.MEGATRON:
        return
    problem = next(_problems(f"{section}.megatron", engine, model, settings), None)
    if problem is not None:
        keys, what = problem
        message = _("{what}: Megatron under {release} stops while it starts").format(
            what=what, release=workload.release
        )
        yield report(RULE, settings, message, keys=[f"{section}.megatron.{key}" for key in keys])


def _problems(
    section: str, engine: Engine, model: ModelShape, settings: Settings
) -> Iterator[tuple[tuple[str, ...], str]]:
    sizes = engine.parallel
    dense = sizes.tensor * sizes.pipeline * sizes.context
    sparse = sizes.expert * sizes.expert_tensor * sizes.pipeline
    tensor, pipeline, context = (
        f"{name}_parallel_size" for name in ("tensor_model", "pipeline_model", "context")
    )
    expert = "expert_model_parallel_size"
    if sizes.gpus % dense:
        product = f"{sizes.tensor} x {sizes.pipeline} x {sizes.context}"
        yield (
            (tensor, pipeline, context),
            _("tensor x pipeline x context {product} does not divide {gpus}").format(
                product=product, gpus=counted(sizes.gpus, "GPU")
            ),
        )
    if model.moe is not None and sizes.gpus % sparse:
        product = f"{sizes.expert} x {sizes.expert_tensor} x {sizes.pipeline}"
        yield (
            (expert, "expert_tensor_parallel_size", pipeline),
            _("expert x expert-tensor x pipeline {product} does not divide {gpus}").format(
                product=product, gpus=counted(sizes.gpus, "GPU")
            ),
        )
    if model.heads % sizes.tensor:
        yield (
            (tensor,),
            _("a tensor-parallel size of {tensor} does not divide {heads} attention heads").format(
                tensor=sizes.tensor, heads=model.heads
            ),
        )
    if model.layers % sizes.pipeline and not _places_layers(section, settings):
        yield (
            (pipeline,),
            _("{pipeline} pipeline stages do not divide {layers}").format(
                pipeline=sizes.pipeline, layers=counted(model.layers, "layer")
            ),
        )
    if model.moe is not None and model.moe.experts % sizes.expert:
        yield (
            (expert,),
            _("an expert-parallel size of {expert} does not divide {experts} experts").format(
                expert=sizes.expert, experts=model.moe.experts
            ),
        )


def _places_layers(section: str, settings: Settings) -> bool:
    names = settings.section(f"{section}.override_transformer_config").items()
    return any(name.startswith(_UNEVEN) and value not in (None, False) for name, value in names)
