"""A vLLM older than 0.8.3

What it checks
--------------
The version of vLLM that the job is taken to run with: ``--engine-version``, else the installed one.
No override helps; install a newer one that the release allows.

Why it matters
--------------
From 0.7.0, which has the first that sleeps, to 0.8.2 a sleeping engine wakes as a whole: the old weights and the KV cache come back before new weights arrive, beside what the trainer holds.
Before 0.8.0 the older core runs; verl's documentation reports 1.5 times the speed for the newer one.
verl's performance guide asks for 0.8.3 or newer.

When it does not apply
----------------------
The version is not older, or is not known: a release is then taken with the newest vLLM that it allows.
The release, or the files and the code of the copy of verl that would run, allow no newer one, or none that does otherwise.

Sources
-------
verl documentation, performance tuning guide and ``docs/README_vllm0.8.md``.
vLLM 0.8.3 ``entrypoints/llm.py`` (``wake_up(tags)``); verl 0.4.1 ``workers/sharding_manager/fsdp_vllm.py``.
verl 0.3.0.post1 ``workers/sharding_manager/fsdp_vllm.py:91-94``, ``workers/rollout/vllm_rollout/vllm_rollout.py:127-160``: up to vLLM 0.6.3 weights are synced alone, and ``init_cache_engine`` follows.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.serving.names import PACKAGES
from tuner.serving.vllm import has_sleep_mode
from tuner.trainers.verl.checks.report import report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.trainers.verl.rollout_engine_versions import newest_allowed
from tuner.versions import at_least
from tuner.workload import RolloutEngine, Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULE = Rule(
    code="CFG146",
    name="vllm-version",
    summary=N_("a vLLM before 0.8.3, slower and woken up as a whole"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for an older vLLM than the release allows."""
    newest = newest_allowed(workload.generator.engine, version)
    yield from _findings(settings, workload, str(workload.release), newest)


def check_of_copy(
    settings: Settings, workload: Workload, version: str, code: "TrainerCode"
) -> Iterator[Finding]:
    """A finding for an older vLLM than a copy of the trainer allows."""
    required = code.requirement(PACKAGES[RolloutEngine.VLLM])
    if required is None:
        yield from check(settings, workload, version)
    else:
        yield from _findings(settings, workload, required.file, required.version)


def _findings(settings: Settings, workload: Workload, allows: str, newest: str) -> Iterator[Finding]:
    rollout = workload.generator
    if rollout.engine is not RolloutEngine.VLLM or at_least(rollout.engine_version, "0.8.3"):
        return
    older_core = not at_least(rollout.engine_version, "0.8.0") and at_least(newest, "0.8.0")
    # Before sleep mode verl's own engine is none that wakes: it frees its cache, and makes it after the sync.
    together = has_sleep_mode(rollout.engine_version) and at_least(newest, "0.8.3")
    if older_core and together:
        message = _(
            "vLLM {engine_version} runs the older core and wakes weights and KV cache together; "
            "{allows} allows {newest}"
        )
    elif older_core:
        message = _("vLLM {engine_version} runs the older core; {allows} allows {newest}")
    elif together:
        message = _("vLLM {engine_version} wakes weights and KV cache together; {allows} allows {newest}")
    else:
        return  # none to install does otherwise
    yield report(
        RULE,
        settings,
        message.format(engine_version=rollout.engine_version, allows=allows, newest=newest),
        keys=[f"{ROLLOUT}.name"],
    )
