"""A LoRA rank that vLLM does not take

What it checks
--------------
``model.lora_rank`` or ``model.lora.rank`` with vLLM, against the ranks that its version can be built for: 8, 16, 32, 64, 128 and 256, since 0.8.0 also 320 and 512, and since 0.11.1 also 1.
The override is the next larger one of them, or the largest.

Why it matters
--------------
vLLM compiles its adapter kernels for some ranks and refuses to start with another one as ``max_lora_rank``.
verl up to 0.6.0 hands the rank on as it is.
0.6.1 and later round it up, and refuse one above 512 before they start the engine; 0.7.1 and later take 1 for a rank that every vLLM has.

When it does not apply
----------------------
Adapters that are merged before they are sent, and SGLang.
The asynchronous rollout of verl up to 0.6.0, which starts vLLM without adapters.

Sources
-------
vLLM 0.7.3 and 0.8.5 ``config.py``, 0.11.0 and 0.24.0 ``config/lora.py``.
verl 0.5.0 ``workers/fsdp_workers.py:487``, 0.6.0 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:115``, 0.6.1 ``workers/rollout/vllm_rollout/utils.py:21-34``, 0.7.1 lines 67-86, 0.9.1 lines 83-102; 0.6.1 ``utils/config.py:198-199``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.serving.vllm import lora_ranks
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, ROLLOUT
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG135",
    name="lora-rank",
    summary=N_("a LoRA rank that vLLM does not take"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

_UNROUNDED = Releases(until="0.6.1")
_FROM_ONE = Releases(since="0.7.1")
_ROUNDED_TO = (8, 16, 32, 64, 128, 256, 320, 512)
_KEYS = (f"{MODEL}.lora.rank", f"{MODEL}.lora_rank")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a rank that the engine cannot be built for."""
    lora, rollout = workload.actor.engine.lora, workload.generator
    if lora is None or lora.merged_for_rollout or rollout.engine is not RolloutEngine.VLLM:
        return
    if version in _UNROUNDED and settings.text(f"{ROLLOUT}.mode", default="sync") != "sync":
        return
    ranks = lora_ranks(rollout.engine_version)
    key = next((name for name in _KEYS if settings.get(name) == lora.rank), None)
    if key is None or _engine_rank(lora.rank, version) in ranks:
        return
    yield report(
        RULE,
        settings,
        _message(lora.rank, ranks).format(
            key=key,
            rank=lora.rank,
            ranks=", ".join(str(rank) for rank in ranks),
            largest=ranks[-1],
            engine_version=rollout.engine_version,
            release=workload.release,
        ),
        keys=[key],
        overrides=[assign(settings, key, next((rank for rank in ranks if rank >= lora.rank), ranks[-1]))],
    )


def _engine_rank(rank: int, version: str) -> int | None:
    """The rank that verl builds the engine for; None where it refuses the adapter's itself."""
    if version in _UNROUNDED:
        return rank
    possible = (1, *_ROUNDED_TO) if version in _FROM_ONE else _ROUNDED_TO
    return next((larger for larger in possible if larger >= rank), None)


def _message(rank: int, ranks: tuple[int, ...]) -> str:
    if rank > ranks[-1]:
        return _("{key}={rank} exceeds the largest rank of vLLM, {largest}: {release} refuses to start")
    return _(
        "{key}={rank}: {release} builds vLLM for this rank, and vLLM {engine_version} takes {ranks} alone, "
        "so that it refuses to start"
    )
