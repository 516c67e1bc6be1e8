"""A limit of images for a model that sees none

What it checks
--------------
``actor_rollout_ref.rollout.limit_images`` for a language model without a vision tower, up to vLLM 0.10.0.
In copies of verl that hand vLLM the images of an agent's turns it is ``rollout.agent.max_vllm_images``, which their own configuration sets, where ``rollout.agent.activate_agent`` is on.
The override takes the limit away.

Why it matters
--------------
verl hands the limit to vLLM as ``limit_mm_per_prompt``, whatever the model is.
vLLM 0.5.5 to 0.10.0 raises ``ValueError`` when it is built: the limit is only supported for multimodal models.

When it does not apply
----------------------
vLLM 0.10.1 and later, which leaves the limit aside, and SGLang, which is not handed one.
Models that see, and types of models that are not known.
Copies of verl whose rollout hands vLLM no limit.

Sources
-------
vLLM 0.8.2 ``config.py:464-474`` (``ModelConfig._init_multimodal_config``), 0.10.0 ``config.py:775``; 0.10.1 has no such error.
verl 0.4.1 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:146-147``, 0.9.1 ``vllm_async_server.py:289-290`` there.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.architectures import find_architecture
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, ROLLOUT
from tuner.versions import at_least
from tuner.workload import RolloutEngine, Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULE = Rule(
    code="CFG205",
    name="image-limit-refused",
    summary=N_("a limit of images for a model that sees none, which vLLM refuses"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

_LIMIT = f"{ROLLOUT}.limit_images"
_HANDED_ON = Releases(since="0.4.0")
_OF_AGENT, _WITH_AGENT = f"{ROLLOUT}.agent.max_vllm_images", f"{ROLLOUT}.agent.activate_agent"
_WORKERS = "vllm_rollout"
_REFUSES, _TAKES = "0.7.0", "0.10.1"  # vLLM; before 0.7.0 verl's own copy of its worker gets no limit


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the release hands on a limit that the model's engine refuses."""
    if version in _HANDED_ON:
        yield from _findings(settings, workload, _LIMIT, None)


def check_of_copy(
    settings: Settings, workload: Workload, version: str, code: "TrainerCode"
) -> Iterator[Finding]:
    """A finding where the rollout of a copy does."""
    if code.has_statement("limit_mm_per_prompt limit_images", _WORKERS):
        yield from _findings(settings, workload, _LIMIT, None)
    if settings.flag(_WITH_AGENT) and code.has_statement("limit_mm_per_prompt max_vllm_images", _WORKERS):
        yield from _findings(settings, workload, _OF_AGENT, 0)


def _findings(settings: Settings, workload: Workload, key: str, without: int | None) -> Iterator[Finding]:
    limit, rollout, model = settings.get(key), workload.generator, workload.model
    architecture = find_architecture(model.architecture)
    sees = architecture.read is None or architecture.tower is not None or model.tower is not None
    if not limit or sees or rollout.engine is not RolloutEngine.VLLM:
        return
    if at_least(rollout.engine_version, _TAKES) or not at_least(rollout.engine_version, _REFUSES):
        return
    message = _(
        "{key}={limit}: {release} hands it to vLLM {engine_version}, which refuses a limit of images for a "
        "model of type {architecture}, which sees none"
    )
    yield report(
        RULE,
        settings,
        message.format(
            key=key,
            limit=limit,
            release=workload.release,
            engine_version=rollout.engine_version,
            architecture=model.architecture,
        ),
        keys=[key, f"{MODEL}.path"],
        overrides=[assign(settings, key, without)],
    )
