"""A rollout that does not divide the GPUs or the heads

What it checks
--------------
The GPUs of the rollout against ``tensor_model_parallel_size`` times ``data_parallel_size`` times ``pipeline_model_parallel_size``, and the attention heads against the tensor-parallel size.
The override is the largest tensor-parallel size up to the one asked for that divides both.

Why it matters
--------------
verl asserts the first when it builds the rollout's device mesh.
The engines refuse a tensor-parallel size that does not divide the attention heads.

When it does not apply
----------------------
Generation by transformers' own ``generate`` (``rollout.name=hf``) has no parallel sizes.

Sources
-------
verl 0.9.1 ``workers/engine_workers.py:654-660``, verl 0.7.1 ``workers/fsdp_workers.py`` (``_build_rollout``), verl 0.4.1 likewise.
vLLM ``config/model.py``: "Total number of attention heads must be divisible by tensor parallel size".
"""

from collections.abc import Iterator

from tuner.counted import counted
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _, ngettext
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG112",
    name="rollout-parallel-indivisible",
    summary=N_("parallel sizes of the rollout that divide neither the GPUs nor the heads"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

_KEY = f"{ROLLOUT}.tensor_model_parallel_size"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the sizes do not fit."""
    rollout, heads = workload.generator, workload.model.heads
    if rollout.engine is RolloutEngine.TRANSFORMERS:
        return
    others = rollout.data_parallel * rollout.pipeline_parallel
    tensor = rollout.tensor_parallel
    replica = tensor * others
    if rollout.gpus % replica:
        what = ngettext(
            "{replica_gpus} per replica does not divide the rollout's {rollout_gpus}",
            "{replica_gpus} per replica do not divide the rollout's {rollout_gpus}",
            replica,
        ).format(replica_gpus=counted(replica, "GPU"), rollout_gpus=counted(rollout.gpus, "GPU"))
    elif heads % tensor:
        what = _("{key}={tensor} does not divide the {heads} attention heads of {model}").format(
            key=_KEY, tensor=tensor, heads=heads, model=workload.model.name
        )
    else:
        return
    legal = [
        size for size in range(1, tensor + 1) if rollout.gpus % (size * others) == 0 and heads % size == 0
    ]
    yield report(
        RULE,
        settings,
        _("{what}: {release} stops when it builds the rollout").format(what=what, release=workload.release),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, legal[-1])] if legal else [],
    )
