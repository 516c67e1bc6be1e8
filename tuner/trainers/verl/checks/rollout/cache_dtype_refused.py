"""A format of the KV cache that vLLM does not know

What it checks
--------------
``engine_kwargs.vllm.kv_cache_dtype`` against the words that the version of vLLM takes.
The override is ``auto``, the format of the weights.

Why it matters
--------------
vLLM compares the word as it stands and refuses to start with another one.
It has ``fp8``, ``fp8_e4m3`` and ``fp8_e5m2`` in every version, ``fp8_inc`` since 0.10.0, ``bfloat16`` since 0.11.0, ``fp8_ds_mla`` since 0.11.1 and ``float16`` since 0.18.0; short words such as ``bf16`` in none.

When it does not apply
----------------------
SGLang, whose words are others.

Sources
-------
vLLM 0.7.3 and 0.8.5 ``config.py`` (``_verify_cache_dtype``), 0.10.0, 0.11.0, 0.11.1, 0.18.0 and 0.24.0 ``config/cache.py`` (``CacheDType``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.serving.vllm import cache_formats
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG186",
    name="cache-dtype-refused",
    summary=N_("a format of the KV cache that vLLM does not know"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

_KEY = f"{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a word that the engine's version does not take."""
    rollout, word = workload.generator, settings.get(_KEY)
    if rollout.engine is not RolloutEngine.VLLM or word is None:
        return
    formats = cache_formats(rollout.engine_version)
    if str(word) in formats:
        return
    yield report(
        RULE,
        settings,
        _("{key}={word}: vLLM {engine_version} under {release} takes {formats}, and refuses to start").format(
            key=_KEY,
            word=word,
            engine_version=rollout.engine_version,
            release=workload.release,
            formats=", ".join(formats),
        ),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, "auto")],
    )
