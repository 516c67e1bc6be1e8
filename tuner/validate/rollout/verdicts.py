"""Verdicts on recommendations that change the rollout, from its memory without and with the change."""

from collections.abc import Iterator, Sequence
from math import ceil, floor

from msgspec.structs import fields

from tuner.advise import Recommendation
from tuner.language import N_, _
from tuner.units import GIB
from tuner.validate.report.schema import JudgedRecommendation, Measurement, Outcome
from tuner.validate.report.verdicts import CLAIMS_NOTHING, claims_something, verdict
from tuner.validate.rollout.measured_rollout import MeasuredRollout
from tuner.validate.session import Session, Subject
from tuner.workload import Workload

SEQUENCES_TOLERANCE = 0.03  # and up to the next whole sequence

# What decides the sizes that are allocated. Of everything else only the engine shows what it does.
_ALLOCATED = {
    "memory_fraction",
    "max_sequences",
    "max_batched_tokens",
    "tensor_parallel",
    "data_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "weight_dtype",
    "kv_dtype",
    "block_tokens",
}
_OF_THE_ENGINE = {
    "log_stats": N_("statistics"),
    "prefix_caching": N_("prefixes that it shares"),
    "chunked_prefill": N_("prompts that it reads in pieces"),
    "cuda_graphs": N_("CUDA graphs"),
    "capture_sizes": N_("CUDA graphs"),
    "frees_memory": N_("what it frees when it sleeps"),
}


#: All that a limit of the sequences' length changes: what the cache has to hold for the engine to start.
ONLY_LENGTH = frozenset({"max_model_tokens"})


def _changed(now: Workload, proposal: Workload) -> set[str]:
    before, after = now.generator, proposal.generator
    names = (field.name for field in fields(before))
    return {name for name in names if getattr(before, name) != getattr(after, name)}


def changing(subject: Subject) -> Iterator[tuple[Recommendation, Workload, set[str]]]:
    """Recommendations that change the rollout, what they make of the job, and what of the rollout changes."""
    for recommendation in subject.advice.recommendations:
        proposal = recommendation.finding.proposal
        if proposal is not None:
            changed = _changed(subject.workload, proposal)
            if changed:
                yield recommendation, proposal, changed


def runnable(subject: Subject) -> list[tuple[Recommendation, Workload]]:
    """Recommendations that change what is allocated during the rollout."""
    return [
        (recommendation, proposal)
        for recommendation, proposal, changed in changing(subject)
        if changed & _ALLOCATED
    ]


def judge_unseen(session: Session) -> Iterator[JudgedRecommendation]:
    """Recommendations whose change of the rollout only the engine itself would show."""
    engine = session.subject.workload.generator.engine.value
    for recommendation, _proposal, changed in changing(session.subject):
        if not changed & _ALLOCATED and changed != ONLY_LENGTH:
            shown = sorted({_shown_by_engine(name) for name in changed})
            reason = _("only {engine} itself shows it: {shown}").format(engine=engine, shown=", ".join(shown))
            if not claims_something(recommendation):
                reason = _("{claim}; {reason}").format(claim=_(CLAIMS_NOTHING), reason=reason)
            yield verdict(recommendation, Outcome.NOT_MEASURABLE, reason)


def _shown_by_engine(name: str) -> str:
    return _(_OF_THE_ENGINE[name]) if name in _OF_THE_ENGINE else name.replace("_", " ")


def judge_rollouts(
    session: Session,
    proposals: Sequence[tuple[Recommendation, Workload]],
    rollouts: Sequence[MeasuredRollout],
) -> Iterator[JudgedRecommendation]:
    """One verdict for each recommendation that was run.

    Args:
        session: what is validated, and on which device.
        proposals: what :func:`runnable` gave.
        rollouts: the configured rollout, then those with the recommendations, as far as there was time.
    """
    for index, (recommendation, _proposal) in enumerate(proposals, start=1):
        if session.options.device == "cpu":
            reason = _("no bytes are counted on a CPU")
            yield verdict(recommendation, Outcome.NOT_MEASURABLE, reason)
        elif index >= len(rollouts):
            reason = _("the budget had no room for it")
            yield verdict(recommendation, Outcome.NOT_MEASURABLE, reason)
        else:
            before, after = rollouts[0], rollouts[index]
            outcome, reason = _verdict(before, after)
            shown = (*_shown(before, "without"), *_shown(after, "with"))
            yield verdict(recommendation, outcome, reason, shown)


def _verdict(before: MeasuredRollout, after: MeasuredRollout) -> tuple[Outcome, str]:
    planned, figures = after.planned, after.figures
    if planned.scaled:
        reason = _(
            "{needed:.1f} GiB would be needed during the rollout, and {room:.1f} GiB are there for us"
        ).format(needed=planned.needed_bytes / GIB, room=planned.room_bytes / GIB)
        # Where neither a limit nor others take any of the card, the card itself is too small for it.
        return (Outcome.NOT_MEASURABLE if planned.limited else Outcome.REFUTED), reason
    if figures.missing:
        share = _("{allocated_share:.0%} of what is predicted could be allocated").format(
            allocated_share=after.allocated_share
        )
        return Outcome.REFUTED, _("runs out of memory at {missing}: {share}").format(
            missing=figures.missing, share=share
        )
    text = _(
        "cache {before:.1f} to {after:.1f} GiB, which fits; sequences of full length "
        "{held_before:,} to {held_after:,}, {concurrent_sequences:,} were predicted; that is "
        "its memory, not its speed"
    ).format(
        before=before.cache_bytes / GIB,
        after=after.cache_bytes / GIB,
        held_before=before.sequences,
        held_after=after.sequences,
        concurrent_sequences=planned.predicted.concurrent_sequences,
    )
    low, high = whole_interval(planned.predicted.concurrent_sequences)
    return (Outcome.CONFIRMED if low <= after.sequences <= high else Outcome.REFUTED), text


def whole_interval(predicted: int) -> tuple[int, int]:
    """The fewest and the most sequences, or blocks, that agree with a prediction."""
    return floor((1 - SEQUENCES_TOLERANCE) * predicted), ceil((1 + SEQUENCES_TOLERANCE) * predicted)


def _shown(rollout: MeasuredRollout, which: str) -> Iterator[Measurement]:
    planned = rollout.planned
    yield Measurement(
        name=f"rollout.kv_cache.{which}",
        what=_("KV cache with the change") if which == "with" else _("KV cache without the change"),
        unit="bytes",
        measured=rollout.cache_bytes,
        predicted=max(0, planned.predicted.kv_bytes),
        extrapolated=planned.extrapolated(),
    )
    yield Measurement(
        name=f"rollout.sequences.{which}",
        what=_("sequences of full length at once with the change")
        if which == "with"
        else _("sequences of full length at once without the change"),
        unit="sequences",
        measured=rollout.sequences,
        predicted=planned.predicted.concurrent_sequences,
        extrapolated=planned.extrapolated(),
    )
    if rollout.peak_bytes is not None:
        yield Measurement(
            name=f"rollout.peak.{which}",
            what=_("used on the GPU during the rollout with the change")
            if which == "with"
            else _("used on the GPU during the rollout without the change"),
            unit="bytes",
            measured=rollout.peak_bytes,
            predicted=planned.phase.peak_bytes,
            extrapolated=planned.extrapolated(),
        )
