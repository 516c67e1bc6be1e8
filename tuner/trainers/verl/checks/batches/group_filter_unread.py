"""A filter of groups that the program which is started has no code for

What it checks
--------------
``algorithm.filter_groups.enable=True`` in a launch of ``verl.trainer.main_ppo`` that does not filter.
Nothing is to be pasted: the recipe DAPO is a program of its own, ``recipe.dapo.main_dapo``.

Why it matters
--------------
Groups whose responses are all right or all wrong are to be dropped and generated again, and are trained on.
verl 0.5.0 to 0.8.0 accept the keys in the configuration of the algorithm, and nothing reads them.

When it does not apply
----------------------
verl 0.9.0 and later with ``trainer.use_v1=True``, whose trainer filters.
A copy of verl whose code names the filter, or that of a package which its program imports, and launches of other programs.
A file of settings alone, of which nobody says what it is for.

Sources
-------
verl 0.5.0 ``trainer/config/algorithm.py:92, 114``, 0.8.0 lines 632 and 660; no other module of these releases has the word.
verl 0.9.1 ``trainer/ppo/v1/trainer_base.py:166-190``; verl 0.7.0 ``recipe/dapo/dapo_ray_trainer.py``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import report
from tuner.trainers.verl.group_filter import ENABLE, FILTER, filters_in_vain
from tuner.workload import Workload

RULE = Rule(
    code="CFG198",
    name="group-filter-unread",
    summary=N_("a filter of groups that the program which is started has no code for"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a filter that nothing reads."""
    if not filters_in_vain(settings, version):
        return
    yield report(
        RULE,
        settings,
        _(
            "{filter}.enable=True: {program} of {release} filters no groups; DAPO's own program, "
            "recipe.dapo.main_dapo, does"
        ).format(filter=FILTER, program=settings.started, release=workload.release),
        keys=[ENABLE],
    )
