"""Keep activations where they fit

What it checks
--------------

A training pass recomputes its layers, and keeping their activations is affordable and faster.
Where the present micro-batch is too large for that, the largest one that is not is proposed with it.

Why it matters
--------------

Recomputation is one forward pass more in every update: a quarter of its arithmetic.
It pays for itself only where it lets micro-batches grow out of the range in which launching kernels and gathering weights take longer than computing.
A few thousand tokens are often enough for that, so small micro-batches without recomputation can be faster than large ones with it.

When it does not apply
----------------------

The activations of one sequence do not fit, or only if everything that is known as an interval stays below its upper end.
Experts that are divided among ranks widen it: a rank whose experts are chosen more often keeps more of every layer.
Small micro-batches lose more on gathered weights than recomputation costs: slow links, or weights that come from the host.
Activations that go to the host, and that the card could not hold: all that recomputation spares would lie there too, page-locked, and the memory of a node is not known.

Sources
-------

verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py``; ``trainer/config/model/hf_model.yaml`` (on by default).
Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (arXiv:2205.05198).
"""

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.passes import site_of
from tuner.rules.rungs import with_engine
from tuner.rules.wording import gib, longest
from tuner.workload import Checkpointing, Phase, Workload

RULE = Rule(
    code="MEM003",
    name="recomputation-not-needed",
    summary=N_("activations are recomputed although they fit"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Keep activations in every training pass that has the room."""
    actor = case.workload.actor_update.phase
    of_actor = _with_activations_kept(case, actor)
    of_critic = _with_activations_kept(of_actor or case, Phase.UPDATE_CRITIC)
    first = of_actor or of_critic
    if first is None:
        return None
    phase = Phase.UPDATE_CRITIC if of_actor is None else actor
    both = of_critic or first
    if of_actor is None:  # the critic's pass may have been in the way
        both = _with_activations_kept(both, actor) or both
    return Finding(
        rule=RULE,
        message=_message(case, first.workload, phase),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=both.workload,
    )


def _with_activations_kept(case: Case, phase: Phase) -> Case | None:
    """The job with the activations of a phase kept, None where that does not pay."""
    proposal = _without_recomputation(case, phase)
    if proposal is None or not case.pays(proposal) or not _has_room(case, proposal, phase):
        return None
    return case.with_workload(proposal)


def _has_room(case: Case, proposal: Workload, phase: Phase) -> bool:
    """Whether what would go to the host is no more than the card could hold: a node has as much for each."""
    site = site_of(proposal, phase)
    if site is None or not site.engine.activation_offload:
        return True
    return _affords(case, with_engine(proposal, phase, replace(site.engine, activation_offload=False)), phase)


def _without_recomputation(case: Case, phase: Phase) -> Workload | None:
    site = site_of(case.workload, phase)
    if site is None or site.engine.checkpointing is Checkpointing.NONE or case.short(phase) is not None:
        return None
    engine = replace(site.engine, checkpointing=Checkpointing.NONE)
    proposal = with_engine(case.workload, phase, engine)
    if not case.faster(proposal) or _affords(case, proposal, phase):
        return proposal
    sizes = site.smaller_sizes(proposal)
    size = case.largest(
        sizes,
        lambda size: site.resized(proposal, size),
        accept=lambda other: _affords(case, other, phase),
    )
    return None if size is None else site.resized(proposal, size)


def _affords(case: Case, proposal: Workload, phase: Phase) -> bool:
    """Whether kept activations fit at the upper end of what they may take."""
    in_phase = case.with_workload(proposal).phase(phase)
    return (in_phase is None or in_phase.interval[1] <= case.limit_bytes) and case.affords(proposal)


def _message(case: Case, proposal: Workload, phase: Phase) -> str:
    """What is recomputed, and for how many sequences in a micro-batch where fewer would do."""
    before, after = site_of(case.workload, phase), site_of(proposal, phase)
    peak = gib(case.with_workload(proposal).peak_bytes(phase))
    if before is None or after is None or before.one_pass == after.one_pass:
        return _("{phase} recomputes every layer; kept activations bring it to {peak}").format(
            phase=phase.value, peak=peak
        )
    return _(
        "{phase} recomputes every layer so that {sequences} fit a micro-batch, where {enough} would do; "
        "kept activations bring it to {peak}"
    ).format(
        phase=phase.value,
        sequences=longest(before.size(case.workload)),
        enough=longest(after.size(proposal)),
        peak=peak,
    )
