"""A vLLM that is older than the type of model that it is to serve

What it checks
--------------
The version of vLLM that the job is taken to run with, against the first one that has layers for the model's type: 0.7.2 for Qwen2.5-VL, 0.8.4 for Qwen3 and its mixture of experts.
No override helps; install a newer one that the release allows.

Why it matters
--------------
Up to 0.7.1 vLLM refuses to start with an architecture that is not in its registry.
From 0.7.2 on it takes the layers of transformers for a text model where these allow it, with a warning in the log: they lack its fused kernels, and seconds and memory of the rollout are not what is estimated.

When it does not apply
----------------------
Other engines, and types of models that every version in use knows.

Sources
-------
vLLM 0.7.1, 0.7.2, 0.8.2, 0.8.3 and 0.8.4 ``model_executor/models/registry.py``.
vLLM 0.7.1 and 0.8.2 ``model_executor/model_loader/utils.py`` (``get_model_architecture``, ``resolve_transformers_fallback``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import report
from tuner.trainers.verl.checks.settings import MODEL, ROLLOUT
from tuner.versions import at_least
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG203",
    name="engine-lacks-model",
    summary=N_("a vLLM that is older than the type of model that it is to serve"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

#: The first vLLM that has layers for a type of model.
_SINCE = {"qwen2_5_vl": "0.7.2", "qwen3": "0.8.4", "qwen3_moe": "0.8.4"}
_TAKES_OTHERS = "0.7.2"  # the first vLLM that takes the layers of transformers in their place


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the engine has no layers for the model."""
    rollout, architecture = workload.generator, workload.model.architecture
    since = _SINCE.get(architecture)
    if rollout.engine is not RolloutEngine.VLLM or since is None or at_least(rollout.engine_version, since):
        return
    if at_least(rollout.engine_version, _TAKES_OTHERS):
        severity = Severity.WARNING
        message = _(
            "vLLM {engine_version} under {release} has no layers for a model of type {architecture}, which "
            "{since} has: it takes those of transformers where it can, and they lack its fused kernels"
        )
    else:
        severity = Severity.ERROR
        message = _(
            "vLLM {engine_version} under {release} has no layers for a model of type {architecture}, which "
            "{since} has, and refuses to start"
        )
    yield report(
        RULE,
        settings,
        message.format(
            engine_version=rollout.engine_version,
            architecture=architecture,
            since=since,
            release=workload.release,
        ),
        keys=[f"{MODEL}.path", f"{ROLLOUT}.name"],
        severity=severity,
    )
