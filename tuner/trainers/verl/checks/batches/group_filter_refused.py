"""A filter of groups that cannot tell groups apart

What it checks
--------------
``algorithm.filter_groups.enable=True`` under the V1 trainer without ``algorithm.filter_groups.metric`` or with no batch in flight, or with a reward model that shares the trainer's GPUs.
The override is the release's default, or gives the reward model GPUs of its own.

Why it matters
--------------
The V1 trainer drops groups while it samples, by a metric that must be there by then.
Without a name, or with ``max_inflight_gen_batches`` below 1, it raises ``ValueError``; a reward model on the trainer's GPUs judges only after sampling, which it asserts against.

When it does not apply
----------------------
Up to 0.8.0 and with ``trainer.use_v1=False``, where PPO's trainer does not filter.

Sources
-------
verl 0.9.1 ``trainer/ppo/v1/trainer_base.py:187-206`` (``_resolve_filter_groups_metric``), ``trainer/ppo/v1/replay_buffer.py:195-197``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.source import source_of
from tuner.workload import Workload

RULE = Rule(
    code="CFG152",
    name="group-filter-refused",
    summary=N_("a filter of groups without a metric, or before the reward is there"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

GUARDS = (
    CodeGuard(words="filter_groups metric", releases=Releases(since="0.9.0")),
    CodeGuard(words="max_inflight_gen_batches positive", releases=Releases(since="0.9.0")),
)

_FILTER = "algorithm.filter_groups"
_REWARD = "reward.reward_model"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for the metric, and one for the reward model."""
    if not settings.flag(f"{_FILTER}.enable") or not source_of(settings, version).v1_trainer:
        return
    for name, default in (("metric", "reward"), ("max_inflight_gen_batches", 1)):
        key = f"{_FILTER}.{name}"
        if key in settings and not settings.get(key):
            yield report(
                RULE,
                settings,
                _("{filter}.enable=True with {key}={value}: {release} raises ValueError").format(
                    filter=_FILTER, key=key, value=settings.get(key), release=workload.release
                ),
                keys=[key, f"{_FILTER}.enable"],
                overrides=[assign(settings, key, default)],
            )
    pool = f"{_REWARD}.enable_resource_pool"
    if settings.flag(f"{_REWARD}.enable") and not settings.flag(pool):
        yield report(
            RULE,
            settings,
            _(
                "{filter}.enable=True with a reward model on the trainer's GPUs: {release} asserts "
                "that the reward is there while it samples"
            ).format(filter=_FILTER, release=workload.release),
            keys=[pool, f"{_FILTER}.enable"],
            overrides=[assign(settings, pool, True)],
        )
