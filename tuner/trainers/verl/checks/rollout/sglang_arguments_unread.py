"""Arguments of SGLang that this release does not hand on

What it checks
--------------
Keys under ``engine_kwargs.sglang`` with ``rollout.name=sglang``, in a release or a mode of rollout that builds the engine without them.
A plain value in place of that section is one of them: where the section is read, the launch is refused for it.

Why it matters
--------------
verl up to 0.5.0 reads none of these keys, 0.6.0 and the synchronous rollout of 0.6.1 the attention backend alone.
Nothing says so: a cache in 8 bits, a limit of CUDA graphs or a chunk of prefill stays as SGLang has it.

When it does not apply
----------------------
0.6.1 with ``rollout.mode=async``, and 0.7.0 and later, which hand all of them on.
Keys that have the value of the release's own configuration.
A copy of verl whose code makes the engine with an argument of that name.

Sources
-------
verl 0.4.1 ``workers/rollout/sglang_rollout/sglang_rollout.py:388-420``, 0.5.0 lines 438-470, 0.6.0 and 0.6.1 there (lines 417-463 and 426-473: arguments one by one).
verl 0.6.0 ``workers/rollout/sglang_rollout/async_sglang_server.py:124-153``; 0.6.1 lines 126-156 and 0.7.0 line 178 (``**engine_kwargs``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import report
from tuner.trainers.verl.checks.settings import changed
from tuner.trainers.verl.plain_sections import SGLANG_ARGUMENTS
from tuner.trainers.verl.sglang_arguments import copy_hands_on, hands_on_arguments
from tuner.trainers.verl.source import source_of
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG195",
    name="sglang-arguments-unread",
    summary=N_("arguments of SGLang that this release does not hand on"),
    severity=Severity.WARNING,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
    unread=True,
)

_SECTION = SGLANG_ARGUMENTS
_READS_BACKEND = Releases(since="0.6.0")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding for all keys that the engine does not get."""
    plain = settings.get(_SECTION)
    if plain is not None and not isinstance(plain, dict):
        yield _unread(settings, workload, [_SECTION])
        return
    if workload.generator.engine is not RolloutEngine.SGLANG:
        return
    if hands_on_arguments(source_of(settings, version)):
        return
    keys = [
        f"{_SECTION}.{name}"
        for name in settings.section(_SECTION)
        if not (name == "attention_backend" and version in _READS_BACKEND)
        and not copy_hands_on(settings, name)
    ]
    unread = [key for key in keys if settings.get(key) is not None and changed(settings, key)]
    if unread:
        yield _unread(settings, workload, unread)


def _unread(settings: Settings, workload: Workload, keys: list[str]) -> Finding:
    shown = ", ".join(f"{key}={settings.get(key)}" for key in keys)
    return report(
        RULE,
        settings,
        _("{shown}: {release} does not hand it to SGLang").format(shown=shown, release=workload.release),
        keys=keys,
    )
