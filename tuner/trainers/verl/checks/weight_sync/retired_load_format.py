"""A load format of an older release

What it checks
--------------
``rollout.load_format`` set to ``dummy_dtensor``, ``dummy_hf`` or ``dummy_megatron``.
The override is ``dummy``.

Why it matters
--------------
The three names told the trainer how to hand over weights, and the trainer cut them down to ``dummy`` before the engine saw them.
The servers of 0.7.0 and later, and the asynchronous ones of 0.6.1, pass the name on as it is, and the engine does not know it.

When it does not apply
----------------------
Up to 0.5.0, where they are the default, in 0.6.1 with ``rollout.mode=sync``, and in a copy of verl whose server cuts every such name down as well.

Sources
-------
verl 0.6.1 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:203`` against ``vllm_async_server.py:221``; 0.7.1 ``vllm_async_server.py:304``, 0.9.1 line 327.
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
    code="CFG136",
    name="retired-load-format",
    summary=N_("a load format of an older release, which the engine does not know"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)


_PASSED_ON = Releases(since="0.7.0")
_PASSED_ON_ASYNC = Releases(since="0.6.0")

GUARDS = tuple(
    CodeGuard(
        words="load_format config",
        lacks="startswith auto",
        file=file,
        around=f"launch_server {option}",
        own=(f"launch_server {option}", f"{engine}_rollout"),
        fails=True,
        settled_by="load_format startswith",
        engine=RolloutEngine(engine),
        releases=_PASSED_ON_ASYNC,
    )
    for engine, file, option in (
        ("vllm", "vllm_async_server", "disable_log_stats"),
        ("sglang", "async_sglang_server", "mem_fraction_static"),
    )
)
_RETIRED = ("dummy_dtensor", "dummy_hf", "dummy_megatron")
_KEY = f"{ROLLOUT}.load_format"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a retired name."""
    load_format = settings.text(_KEY)
    asynchronous = version in _PASSED_ON_ASYNC and settings.text(f"{ROLLOUT}.mode") == "async"
    if load_format not in _RETIRED or not (version in _PASSED_ON or asynchronous):
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}={load_format} reaches the rollout engine of {release} as it is, which does not know it"
        ).format(key=_KEY, load_format=load_format, release=workload.release),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, "dummy")],
    )
