"""An engine for single requests that runs few of them at once

What it checks
--------------
``policy.generation.vllm_cfg.async_engine`` without ``max_num_seqs`` among ``vllm_kwargs``, where a replica is given more responses than run at once.

Why it matters
--------------
vLLM has defaults for its class for whole batches and for its server, and none for the class that NeMo-RL makes here: 128 sequences and 2,048 tokens of a step, where the class for batches takes 1,024 and 16,384 on a card of 70 GiB or more.
What does not run waits, and decoding 128 sequences takes nearly as long a step as decoding several times as many.

Sources
-------
NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/models/generation/vllm/vllm_worker_async.py`` (``AsyncLLM.from_engine_args``).
vLLM 0.11.2 to 0.20.0 ``vllm/v1/engine/async_llm.py`` (``usage_context``), ``vllm/config/scheduler.py`` (``DEFAULT_MAX_NUM_SEQS``).
"""

from collections.abc import Iterator
from math import ceil

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.trainers.nemo_rl.checks.report import report
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.workload import Workload

RULE = Rule(
    code="NRL005",
    name="nemo-few-sequences",
    summary=N_("an engine for single requests that runs few of them at once"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)
_KEY = "policy.generation.vllm_kwargs.max_num_seqs"
_SWITCH = "policy.generation.vllm_cfg.async_engine"
_MOST = 1024  # that vLLM's own defaults reach


def check(source: SettingsByMeaning, workload: Workload) -> Iterator[Finding]:
    """A finding where responses wait for a place."""
    rollout = workload.rollout
    if (
        rollout is None
        or not source.flag("rollout.asynchronous")
        or source.value("rollout.sequences") is not None
    ):
        return
    waiting = ceil(workload.batch.sequences / rollout.replicas)
    if waiting <= rollout.max_sequences:
        return
    wanted = min(_MOST, 1 << (waiting - 1).bit_length())
    yield report(
        RULE,
        source,
        _(
            "{waiting} responses of a replica run {sequences} at a time, vLLM's default where NeMo-RL "
            "names none"
        ).format(waiting=waiting, sequences=rollout.max_sequences),
        keys=(_SWITCH,),
        overrides=(f"++{_KEY}={wanted}",),
    )
