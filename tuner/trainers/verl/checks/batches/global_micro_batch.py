"""A micro-batch counted over all GPUs

What it checks
--------------
``ppo_micro_batch_size`` of the actor and the critic and ``log_prob_micro_batch_size`` of the rollout and the reference: the form that counts the sequences of all GPUs together.
The override sets the ``_per_gpu`` form to what the old workers would have made of it, the global size divided by the data-parallel ranks, and empties the global key.

Why it matters
--------------
Up to 0.7.1 the workers divide the value at start-up and warn in the documentation only.
The model engine of 0.8.0 and later no longer divides: it asserts that the ``_per_gpu`` key is set.
From 0.5.0 on the critic's ``_per_gpu`` key takes the global value by interpolation, so that setting the global key alone counts as setting both, which verl rejects.

When it does not apply
----------------------
Under dynamic batching the actor, the rollout and the reference ignore both forms in 0.8.0 and later.
Where the adapters' base model is the reference, its sizes are not read.
A copy of verl from before 0.2 has the global form alone: it is what the copy reads, and nothing is to be done.

Sources
-------
verl 0.4.1 ``workers/fsdp_workers.py:729-732`` (a reference without a worker of its own).
verl 0.7.1 ``workers/fsdp_workers.py:250-281`` divides; verl 0.9.1 ``workers/engine_workers.py:632-637`` asserts the ``_per_gpu`` form.
verl 0.9.1 ``workers/config/critic.py:108`` rejects both; ``trainer/config/critic/critic.yaml`` interpolates one from the other.
verl 0.7.1 ``docs/perf/perf_tuning.rst``: "use ``*micro_batch_size_per_gpu``".
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.global_sizes import GlobalSize, global_sizes
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Workload

RULE = Rule(
    code="CFG103",
    name="global-micro-batch",
    summary=N_("a micro-batch counted over all GPUs instead of per GPU"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_ASSERTED = Releases(since=ENGINE_PREVIEW)

GUARDS = (
    CodeGuard(words="mbs mbs_per_gpu"),
    CodeGuard(
        words="log_prob_micro_batch_size_per_gpu",
        file="engine_workers",
        around="init_model rollout use_dynamic_bsz",
        releases=_ASSERTED,
    ),
)
_INTERPOLATED = Releases(since="0.5.0")  # critic: the global value reaches the per-GPU key as well


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per global micro-batch that counts."""
    for place in global_sizes(workload):
        value = settings.integer(place.key, minimum=1)
        if value is None or settings.flag(place.dynamic):
            continue
        ranks = place.engine.parallel.data
        if version not in _ASSERTED and (place.per_gpu not in settings or value < ranks):
            continue  # a copy from before that form, which reads no other key; or another check speaks
        per_gpu = max(1, value // ranks)
        what, severity = _fate(settings, place, version)
        message = _("{key}={value} counts the sequences of all GPUs: {release} {what}").format(
            key=place.key, value=value, release=workload.release, what=what
        )
        yield report(
            RULE,
            settings,
            message,
            keys=[place.key, place.per_gpu],
            overrides=[assign(settings, place.per_gpu, per_gpu), assign(settings, place.key, None)],
            severity=severity,
        )


def _fate(settings: Settings, place: GlobalSize, version: str) -> tuple[str, Severity]:
    per_gpu = settings.get(place.per_gpu)
    if per_gpu is not None:
        if not place.critic:
            return _("refuses to start with it and the per-GPU form set as well"), Severity.ERROR
        if version in _INTERPOLATED:
            return (
                _("refuses to start with it and, by interpolation, the per-GPU form set as well"),
                Severity.ERROR,
            )
    if version in _ASSERTED:
        return _("no longer divides it and stops for want of the per-GPU form"), Severity.ERROR
    return _("divides it by the data-parallel ranks, and later releases reject it"), Severity.WARNING
