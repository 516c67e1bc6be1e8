"""Expert parallelism of the rollout apart from its other sizes

What it checks
--------------
``rollout.expert_parallel_size`` above 1 that is not ``tensor_model_parallel_size`` times ``data_parallel_size``.
The override is that product.

Why it matters
--------------
vLLM and SGLang spread the experts over all GPUs of a replica, and verl asserts that the number says so.

When it does not apply
----------------------
TensorRT-LLM from 0.7.1 on, which has a tensor-parallel size of its own for experts.

Sources
-------
verl 0.6.1 ``workers/config/rollout.py`` (``__post_init__``), 0.9.1 likewise.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG113",
    name="rollout-expert-parallel",
    summary=N_("expert parallelism of the rollout that differs from tensor times data parallelism"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_ASSERTED = Releases(since="0.6.0")

GUARDS = (
    CodeGuard(words="expert_parallel_size tensor_model_parallel_size data_parallel_size", releases=_ASSERTED),
)
_KEY = f"{ROLLOUT}.expert_parallel_size"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the sizes differ."""
    rollout = workload.generator
    experts = settings.integer(_KEY, default=1)
    wanted = rollout.tensor_parallel * rollout.data_parallel
    if version not in _ASSERTED or rollout.engine is RolloutEngine.TENSORRT_LLM or experts in (1, wanted):
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}={experts}, but tensor x data parallelism is {tensor_parallel} x "
            "{data_parallel}: {release} asserts that the product is the same"
        ).format(
            key=_KEY,
            experts=experts,
            tensor_parallel=rollout.tensor_parallel,
            data_parallel=rollout.data_parallel,
            release=workload.release,
        ),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, wanted)],
    )
