"""CUDA graphs with an engine that sleeps

What it checks
--------------
``rollout.enforce_eager=False`` with ``rollout.free_cache_engine=True`` in a release that asserts against it.
The override decodes eagerly.

Why it matters
--------------
0.4.1 still carries the assertion for the engine that it patched before vLLM had a sleep mode.

When it does not apply
----------------------
From 0.5.0 on both work together, and CUDA graphs are the default from 0.6.0 on.
vLLM with ``rollout.mode=async`` does not assert it; SGLang does, which runs the same rollout behind its servers.

Sources
-------
verl 0.4.1 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:90``, ``workers/rollout/sglang_rollout/sglang_rollout.py:288``, ``workers/fsdp_workers.py:430`` (``vLLMAsyncRollout``) and 469 (``SGLangRollout``, whatever the mode).
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
    code="CFG129",
    name="graphs-with-free-cache",
    summary=N_("CUDA graphs with an engine that sleeps, which 0.4.1 refuses"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_ASSERTED = Releases(until="0.5.0")

GUARDS = (
    CodeGuard(
        words="enforce_eager free_cache_engine",
        file="_spmd",
        around="vLLMRollout",
        engine=RolloutEngine.VLLM,
        releases=_ASSERTED,
    ),
    CodeGuard(
        words="enforce_eager free_cache_engine",
        file="sglang_rollout",
        around="SGLangRollout",
        engine=RolloutEngine.SGLANG,
        releases=_ASSERTED,
    ),
)
_EAGER, _FREE = f"{ROLLOUT}.enforce_eager", f"{ROLLOUT}.free_cache_engine"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where graphs and sleep meet."""
    served = settings.text(f"{ROLLOUT}.mode") == "async" and workload.generator.engine is RolloutEngine.VLLM
    eager, free = settings.flag(_EAGER, default=True), settings.flag(_FREE, default=True)
    if served or eager or not free or not _is_asserted(settings, workload, version):
        return
    yield report(
        RULE,
        settings,
        _(
            "{eager}=False with {free}=True: {release} asserts eager decoding for an engine that "
            "frees its cache"
        ).format(eager=_EAGER, free=_FREE, release=workload.release),
        keys=[_EAGER, _FREE],
        overrides=[assign(settings, _EAGER, True)],
    )


def _is_asserted(settings: Settings, workload: Workload, version: str) -> bool:
    """Whether the release asserts it, or a project's own rollout, whatever the release is."""
    if version in _ASSERTED:
        return True
    engine = workload.generator.engine
    own = (guard.in_own_code(settings) for guard in GUARDS if guard.engine is engine)
    return any(own)
