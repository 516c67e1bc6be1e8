"""Store a frozen base model in bfloat16

What it checks
--------------

Only adapters are trained, and the frozen base model is stored in float32.

Why it matters
--------------

A float32 copy is kept so that small updates are not lost; frozen weights get none.
In bfloat16 the base takes half of its memory and half of the bytes of every offload and weight sync.
Where a phase lacks memory it is named before anything that costs time.
Where the adapters stay in float32 the numbers are the same: the base is rounded before each use either way.

When it does not apply
----------------------

All parameters are trained.
No phase lacks memory, and less than 2 % of the card would be saved.
verl 0.9.0 and later cast the adapters to the dtype of the base: in bfloat16 they are updated in bfloat16, which can slow learning at small learning rates.
Before, they stay in float32, as peft makes them; the trainer of fine-tuning casts them since 0.5.0.

Sources
-------

verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py`` (stored dtype defaults to float32); 0.9.0 lines 351-362, the cast; peft ``get_peft_model`` (``autocast_adapter_dtype``).
verl documentation, LoRA guide.
Peaks measured on two H200 with verl 0.9.1 and torch 2.11.0, 2026-11-20.
"""

from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due
from tuner.rules.rungs import base_in_compute_dtype, base_stored_low
from tuner.rules.wording import gib, over
from tuner.workload import Phase

RULE = Rule(
    code="MEM012",
    name="lora-base-dtype",
    summary=N_("the frozen base of adapters is stored in float32"),
    severity=Severity.ADVICE,
    goal=Goal.MEMORY,
    numerics=Numerics.CHANGED,
)

_LEAST = 0.02  # of the card; less is not worth another dtype where nothing lacks memory


def check(case: Case) -> Finding | None:
    """Store the base in the compute dtype."""
    engine = case.workload.actor.engine
    if engine.lora is None or engine.stored_dtype is not DType.FLOAT32:
        return None
    due_phase = due(case, base_in_compute_dtype)
    proposal = base_stored_low(case.workload)
    phase = due_phase or case.workload.actor_update.phase
    if not case.lowers(proposal, phase) or case.slower(proposal):
        return None
    exact = engine.lora.stays_float32 and not engine.lora.merged_for_rollout
    saved = case.peak_bytes(phase) - case.with_workload(proposal).peak_bytes(phase)
    if saved < _LEAST * case.capacity_bytes and case.short() is None:
        return None
    return Finding(
        rule=RULE,
        message=_message(case, due_phase, saved),
        severity=RULE.severity if due_phase is None else case.severity(due_phase),
        evidence=Evidence.MEASURED,
        phase=phase,
        proposal=proposal,
        notes=(
            _("The adapters stay in float32.") if exact else _("The adapters are stored in the same dtype."),
        ),
        effect=Numerics.EXACT if exact else None,
    )


def _message(case: Case, phase: Phase | None, saved: int) -> str:
    """What the base takes, behind the phase that lacks it where there is one."""
    dtype = case.workload.actor.engine.compute_dtype.value
    if phase is None:
        return _(
            "the frozen base is stored in float32; {compute_dtype} is what it computes with and "
            "takes {saved} less"
        ).format(compute_dtype=dtype, saved=gib(saved))
    return _(
        "{shortage} while the frozen base is stored in float32; {compute_dtype} is what it computes with "
        "and takes {saved} less"
    ).format(shortage=over(case, phase), compute_dtype=dtype, saved=gib(saved))
