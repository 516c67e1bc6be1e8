"""Chunks of log-probabilities that save nothing

What it checks
--------------
``policy.logprob_chunk_size`` under DTensor without tensor parallelism.

Why it matters
--------------
There every chunk's log-softmax of all columns is kept and joined to the others': 12 bytes for each logit at once, where one log-softmax of all tokens takes 8.

When it does not apply
----------------------
Under Megatron, and where ranks share the vocabulary: there a chunk's log-probabilities are gathered before the next.

Sources
-------
NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/models/automodel/train.py`` (``_compute_local_logprobs``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.trainers.nemo_rl.checks.report import report
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.workload import Backend, Workload

RULE = Rule(
    code="NRL004",
    name="nemo-idle-chunks",
    summary=N_("chunks of log-probabilities that save nothing"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)
_KEY = "policy.logprob_chunk_size"


def check(source: SettingsByMeaning, workload: Workload) -> Iterator[Finding]:
    """A finding where chunks are joined again."""
    engine, chunk = workload.actor.engine, source.integer("log_prob_chunk")
    if chunk is None or engine.backend is not Backend.FSDP2 or engine.parallel.tensor > 1:
        return
    yield report(
        RULE,
        source,
        _("{key}={chunk} joins the log-softmax of all chunks: 12 bytes for each logit instead of 8").format(
            key=_KEY, chunk=chunk
        ),
        keys=(_KEY,),
        overrides=(f"{_KEY}=null",),
    )
