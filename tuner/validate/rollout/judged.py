"""Verdicts on recommendations that change the rollout, from its memory without and with the change."""

from collections.abc import Iterator, Sequence
from math import ceil, floor

from msgspec.structs import fields

from tuner.advise import Recommendation
from tuner.units import GIB
from tuner.validate.report.schema import JudgedRecommendation, Measurement, Outcome
from tuner.validate.report.verdicts import CLAIMS_NOTHING, claims_something, verdict
from tuner.validate.rollout.seen import SeenRollout
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
    "log_stats": "statistics",
    "prefix_caching": "prefixes that it shares",
    "chunked_prefill": "prompts that it reads in pieces",
    "cuda_graphs": "CUDA graphs",
    "capture_sizes": "CUDA graphs",
    "frees_memory": "what it frees when it sleeps",
}


#: All that a limit of the sequences' length changes: what the cache has to hold for the engine to start.
ONLY_LENGTH = frozenset({"max_model_tokens"})


def _changed(now: Workload, proposal: Workload) -> set[str]:
    names = (field.name for field in fields(now.rollout))
    return {name for name in names if getattr(now.rollout, name) != getattr(proposal.rollout, name)}


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
    engine = session.subject.workload.rollout.engine.value
    for recommendation, _, changed in changing(session.subject):
        if not changed & _ALLOCATED and changed != ONLY_LENGTH:
            shown = sorted({_OF_THE_ENGINE.get(name, name.replace("_", " ")) for name in changed})
            reason = f"only {engine} itself shows it: {', '.join(shown)}"
            if not claims_something(recommendation):
                reason = f"{CLAIMS_NOTHING}; {reason}"
            yield verdict(recommendation, Outcome.NOT_MEASURABLE, reason)


def judge_rollouts(
    session: Session, proposals: Sequence[tuple[Recommendation, Workload]], seen: Sequence[SeenRollout]
) -> Iterator[JudgedRecommendation]:
    """One verdict for each recommendation that was run.

    Args:
        session: what is validated, and on which device.
        proposals: what :func:`runnable` gave.
        seen: the configured rollout, then those with the recommendations, as far as there was time.
    """
    for index, (recommendation, _) in enumerate(proposals, start=1):
        if session.options.device == "cpu":
            reason = "no bytes are counted on a CPU"
            yield verdict(recommendation, Outcome.NOT_MEASURABLE, reason)
        elif index >= len(seen):
            reason = "the budget had no room for it"
            yield verdict(recommendation, Outcome.NOT_MEASURABLE, reason)
        else:
            before, after = seen[0], seen[index]
            outcome, reason = _verdict(before, after)
            shown = (*_shown(before, "without"), *_shown(after, "with"))
            yield verdict(recommendation, outcome, reason, shown)


def _verdict(before: SeenRollout, after: SeenRollout) -> tuple[Outcome, str]:
    planned, figures = after.planned, after.figures
    if planned.scaled:
        reason = (
            f"{planned.needed_bytes / GIB:.1f} GiB would be needed during the rollout, and "
            f"{planned.room_bytes / GIB:.1f} GiB are there for us"
        )
        # Where neither a limit nor others take any of the card, the card itself is too small for it.
        return (Outcome.NOT_MEASURABLE if planned.limited else Outcome.REFUTED), reason
    if figures.missing:
        share = f"{after.allocated_share:.0%} of what is predicted could be allocated"
        return Outcome.REFUTED, f"runs out of memory at {figures.missing}: {share}"
    text = (
        f"cache {before.cache_bytes / GIB:.1f} to {after.cache_bytes / GIB:.1f} GiB, which fits; sequences "
        f"of full length {before.sequences:,} to {after.sequences:,}, "
        f"{planned.predicted.concurrent_sequences:,} were predicted; that is its memory, not its speed"
    )
    low, high = whole_interval(planned.predicted.concurrent_sequences)
    return (Outcome.CONFIRMED if low <= after.sequences <= high else Outcome.REFUTED), text


def whole_interval(predicted: int) -> tuple[int, int]:
    """The fewest and the most sequences, or blocks, that agree with a prediction."""
    return floor((1 - SEQUENCES_TOLERANCE) * predicted), ceil((1 + SEQUENCES_TOLERANCE) * predicted)


def _shown(seen: SeenRollout, which: str) -> Iterator[Measurement]:
    planned = seen.planned
    yield Measurement(
        name=f"rollout.kv_cache.{which}",
        what=f"KV cache {which} the change",
        unit="bytes",
        measured=seen.cache_bytes,
        predicted=max(0, planned.predicted.kv_bytes),
        extrapolated=planned.extrapolated(),
    )
    yield Measurement(
        name=f"rollout.sequences.{which}",
        what=f"sequences of full length at once {which} the change",
        unit="sequences",
        measured=seen.sequences,
        predicted=planned.predicted.concurrent_sequences,
        extrapolated=planned.extrapolated(),
    )
    if seen.peak_bytes is not None:
        yield Measurement(
            name=f"rollout.peak.{which}",
            what=f"used on the GPU during the rollout {which} the change",
            unit="bytes",
            measured=seen.peak_bytes,
            predicted=planned.phase.peak_bytes,
            extrapolated=planned.extrapolated(),
        )
