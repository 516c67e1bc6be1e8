"""Know what a sampling temperature costs in training

What it checks
--------------

Logits are divided by a temperature into a copy, and the copies of the largest micro-batch take more than a twentieth of the card.

Why it matters
--------------

The division is not done in place: a second tensor of the logits' size exists while log-probabilities are computed, and its gradient in training.
At a temperature of exactly one, recent releases skip it.

When it does not apply
----------------------

The temperature is part of the algorithm: changing it changes which policy is trained.
A fused head scales its tiles and makes no copy.
Nothing is proposed; smaller micro-batches or a fused head make up for the copy.

Sources
-------

verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py`` (``_scale_logits_by_temperature``); verl #6935.
Peaks measured on two H200 with verl 0.9.1 and torch 2.11.0, 2026-11-20.
"""

from tuner.batching import micro_batch_tokens
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.passes import actor_update, site_of
from tuner.rules.wording import gib
from tuner.workload import HeadKind, Phase, Scaling

RULE = Rule(
    code="KRN007",
    name="temperature-copy",
    summary=N_("dividing by the temperature copies the logits"),
    severity=Severity.ADVICE,
    goal=Goal.MEMORY,
    numerics=Numerics.CHANGED,
)

LARGE = 0.05  # share of the card


def check(case: Case) -> Finding | None:
    """Name the copy where it is large."""
    workload, head = case.workload, case.workload.actor.head
    if head.kind is not HeadKind.LOGITS or head.scaling is not Scaling.COPY:
        return None
    sites = [
        site for site in (actor_update(workload), site_of(workload, Phase.OLD_LOG_PROB)) if site is not None
    ]
    tokens = {site.phase: micro_batch_tokens(workload.batch, site.step_pass) for site in sites}
    phase = max(tokens, key=lambda phase: tokens[phase])
    copied = tokens[phase] * workload.model.vocab * head.logits_dtype.bytes
    if copied < LARGE * case.estimate.capacity_bytes:
        return None
    return Finding(
        rule=RULE,
        message=_(
            "the logits of {tokens:,} tokens are divided by the temperature into a copy of {copied}"
        ).format(tokens=tokens[phase], copied=gib(copied)),
        severity=RULE.severity,
        evidence=Evidence.MEASURED,
        phase=phase,
    )
