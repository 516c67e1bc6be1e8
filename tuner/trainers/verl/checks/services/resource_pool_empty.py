"""A pool of GPUs for a reward model or a teacher, without GPUs

What it checks
--------------
A pool of its own for the reward model, or a teacher, which always has one, where the nodes or the GPUs of a node are 0.
The override sets one node, of as many GPUs as a node of the trainer has.

Why it matters
--------------
verl raises ``ValueError`` while it hands out the GPUs.
The number of nodes is 0 by default, so that switching the pool on is not enough.

When it does not apply
----------------------
A reward model that shares the trainer's GPUs, where these keys are not read.

Sources
-------
verl 0.6.1 ``trainer/main_ppo.py:185-189``, 0.7.1 lines 226-230, 0.8.0 lines 166-183, 0.9.1 ``trainer/ppo/v1/trainer_base.py:822-842``.
"""

from collections.abc import Iterator

from msgspec import Struct

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.workload import Workload

RULE = Rule(
    code="CFG150",
    name="resource-pool-empty",
    summary=N_("a pool of its own for a reward model or a teacher, without GPUs"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

GUARDS = (CodeGuard(words="n_gpus_per_node greater", releases=Releases(since="0.6.0")),)


class Pool(Struct, frozen=True, kw_only=True):
    """A section with the size of a pool, and the switch that asks for it."""

    section: str
    switch: str
    releases: Releases


_POOLS = (
    Pool(
        section="reward_model",
        switch="reward_model.enable_resource_pool",
        releases=Releases(since="0.6.0", until="0.7.0"),
    ),
    Pool(
        section="reward.reward_model",
        switch="reward.reward_model.enable_resource_pool",
        releases=Releases(since="0.7.0"),
    ),
    Pool(section="distillation", switch="distillation.enabled", releases=Releases(since="0.8.0")),
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per pool that is asked for and empty."""
    for pool in _POOLS:
        if version not in pool.releases or not settings.flag(pool.switch):
            continue
        sizes = {
            f"{pool.section}.nnodes": 1,
            f"{pool.section}.n_gpus_per_node": workload.cluster.gpus_per_node,
        }
        empty = {key: size for key, size in sizes.items() if not settings.integer(key, default=0)}
        if empty:
            yield report(
                RULE,
                settings,
                _(
                    "{switch}=True asks for GPUs of its own, and {empty} gives none: {release} raises "
                    "ValueError"
                ).format(
                    switch=pool.switch, empty=", ".join(f"{key}=0" for key in empty), release=workload.release
                ),
                keys=[*empty, pool.switch],
                overrides=[assign(settings, key, size) for key, size in empty.items()],
            )
