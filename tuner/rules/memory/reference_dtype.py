"""Keep the reference in bfloat16

What it checks
--------------

The frozen reference is stored in float32 and computes in bfloat16.

Why it matters
--------------

Under FSDP the reference lies on the host and is fetched for every micro-batch.
In bfloat16 it takes half of the host memory and half of the time of every fetch, and computes the same numbers: the weights are rounded before each use either way.
Releases before 0.7.1 stored it in bfloat16 by default; later ones do not.

When it does not apply
----------------------

The reference computes in float32.
It has one GPU to itself under FSDP1: torch then has no shards, and its modules hold on the card what it fetches without a cast.
The reference is the actor with its adapters switched off.

Sources
-------

verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py``; ``trainer/config/ref/dp_ref.yaml``.
torch ``distributed/fsdp/_flat_param.py``, ``_use_unsharded_views``.
verl #7182.
"""

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.memory.fsdp.units import has_held_weights
from tuner.rules.case import Case
from tuner.rules.wording import gib
from tuner.workload import Backend, Phase

RULE = Rule(
    code="MEM013",
    name="reference-dtype",
    summary=N_("the reference is stored in float32 and computes in bfloat16"),
    severity=Severity.ADVICE,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Store the reference in the dtype it computes with."""
    reference = case.workload.reference
    if reference is None or not reference.separate or reference.engine.backend is Backend.MEGATRON:
        return None
    engine = reference.engine
    if engine.stored_dtype is not DType.FLOAT32 or engine.compute_dtype is DType.FLOAT32:
        return None
    smaller = replace(engine, stored_dtype=engine.compute_dtype)
    if has_held_weights(smaller):
        return None
    proposal = case.workload.with_reference(engine=smaller)
    saved = case.host_bytes - case.with_workload(proposal).host_bytes
    return Finding(
        rule=RULE,
        message=_(
            "the reference is stored in float32 and computes in {compute_dtype}; stored like "
            "that it takes {saved} less of each node's host memory and is fetched twice as fast"
        ).format(compute_dtype=engine.compute_dtype.value, saved=gib(saved)),
        severity=RULE.severity,
        evidence=Evidence.EXACT,
        phase=Phase.REF_LOG_PROB,
        proposal=proposal,
    )
