"""A format of the KV cache that the rollout engine does not know

What it checks
--------------
``engine_kwargs.vllm.kv_cache_dtype`` or ``engine_kwargs.sglang.kv_cache_dtype``, whichever engine generates, against the words that its version takes.
The override is ``auto``, the format of the weights.

Why it matters
--------------
The engine compares the word as it stands and refuses to start with another one.
vLLM has ``fp8``, ``fp8_e4m3`` and ``fp8_e5m2`` in every version, ``fp8_inc`` since 0.10.0, ``bfloat16`` since 0.11.0, ``fp8_ds_mla`` since 0.11.1 and ``float16`` since 0.18.0; short words such as ``bf16`` in none.
SGLang has ``fp8_e4m3`` and ``fp8_e5m2`` in every version, and ``bf16``, ``bfloat16`` and ``fp4_e2m1`` since 0.5.4; plain ``fp8`` in none.

When it does not apply
----------------------
Releases that hand SGLang no such argument: verl up to 0.6.0, and the synchronous rollout of 0.6.1.

Sources
-------
vLLM 0.7.3 and 0.8.5 ``config.py`` (``_verify_cache_dtype``), 0.10.0, 0.11.0, 0.11.1, 0.18.0 and 0.24.0 ``config/cache.py`` (``CacheDType``).
SGLang 0.5.2 ``srt/model_executor/model_runner.py:1231-1246``, 0.5.5 lines 1509-1546, 0.5.8 and 0.5.12 there (``configure_kv_cache_dtype``).
verl 0.6.1 ``workers/rollout/sglang_rollout/async_sglang_server.py:156``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.serving import sglang, vllm
from tuner.serving.names import NAMES
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.trainers.verl.sglang_arguments import hands_on_arguments
from tuner.trainers.verl.source import source_of
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG186",
    name="cache-dtype-refused",
    summary=N_("a format of the KV cache that the rollout engine does not know"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

_FORMATS = {RolloutEngine.VLLM: vllm.cache_formats, RolloutEngine.SGLANG: sglang.cache_formats}


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a word that the engine's version does not take."""
    rollout = workload.generator
    formats_of = _FORMATS.get(rollout.engine)
    key = f"{ROLLOUT}.engine_kwargs.{rollout.engine.value}.kv_cache_dtype"
    word = settings.get(key)
    if formats_of is None or word is None:
        return
    if rollout.engine is RolloutEngine.SGLANG and not hands_on_arguments(source_of(settings, version)):
        return
    formats = formats_of(rollout.engine_version)
    if str(word) in formats:
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}={word}: {engine} {engine_version} under {release} takes {formats}, and refuses to start"
        ).format(
            key=key,
            word=word,
            engine=NAMES[rollout.engine],
            engine_version=rollout.engine_version,
            release=workload.release,
            formats=", ".join(formats),
        ),
        keys=[key],
        overrides=[assign(settings, key, "auto")],
    )
