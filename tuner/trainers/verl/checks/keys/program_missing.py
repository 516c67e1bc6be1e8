"""A program that is not where Python looks for it

What it checks
--------------
The module of ``verl.trainer`` that a launch starts, in the copy of verl that the launch lies in, and without one in the release.
A module of a recipe beside it is told where a module of the same last name lies elsewhere below the same folder: the only one is read in its place.

Why it matters
--------------
Python ends with ``No module named ...`` before anything is loaded.

When it does not apply
----------------------
Another folder comes first on Python's path, or the copy is no package by itself.
Of a release only the trainers are known that one release has and another has not.

Sources
-------
verl 0.8.0 ``trainer/main_ppo_sync.py``, which neither 0.7.1 nor 0.9.0 has; 0.9.0 ``trainer/main_ppo_v0.py``, which 0.8.0 has not.
Python documentation, "The initialization of the sys.path module search path" (``-m``: the current directory comes first).
"""

from collections.abc import Iterator
from difflib import get_close_matches

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import report
from tuner.workload import Workload

RULE = Rule(
    code="CFG200",
    name="program-missing",
    summary=N_("a program that is not where Python looks for it"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

REFUSED_BY = RefusedBy.PYTHON

_OF_RELEASES = {
    "verl.trainer.main_ppo_sync": Releases(since="0.8.0", until="0.9.0"),
    "verl.trainer.main_ppo_v0": Releases(since="0.9.0"),
}
_MOST = 3  # modules that are named


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the module is not there."""
    module, beside = settings.asked_program or settings.started, settings.programs_beside
    if beside is None:
        known = _OF_RELEASES.get(module)
        if settings.has_statement is None and known is not None and version not in known:
            text = _("{release} has no module {module}: Python does not find it")
            yield report(RULE, settings, text.format(release=workload.release, module=module), keys=[])
        return
    near = get_close_matches(module, beside, n=_MOST) or beside[:_MOST]
    text = _("the copy of verl that this launch lies in has no module {module}: Python does not find it")
    if settings.asked_program:
        text = _("{module} is not there: Python does not find it; there is {names}")
        names = _(", ").join(beside[:_MOST])
        yield report(RULE, settings, text.format(module=module, names=names), keys=[])
        return
    if near:
        text = _("{text}; near it are {names}").format(text=text, names=_(", ").join(near))
    yield report(RULE, settings, text.format(module=module), keys=[])
