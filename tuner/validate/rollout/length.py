"""Verdicts on the length that the rollout engine is built for: whether one such sequence has room here.

Such a recommendation claims no bytes and no seconds. What it claims is room: vLLM does not start with a cache
that is smaller than one sequence of that length.
"""

from collections.abc import Iterator

from tuner.advise import Recommendation
from tuner.language import _
from tuner.memory.rollout.capacity import built_sequence_bytes, rollout_memory
from tuner.units import GIB
from tuner.validate.report.schema import JudgedRecommendation, Measurement, Outcome
from tuner.validate.report.verdicts import verdict
from tuner.validate.rollout.measured_rollout import MeasuredRollout
from tuner.validate.rollout.verdicts import ONLY_LENGTH, changing
from tuner.validate.session import Session
from tuner.workload import Workload


def judge_lengths(session: Session, configured: MeasuredRollout) -> Iterator[JudgedRecommendation]:
    """One verdict for each recommendation that changes nothing of the rollout but this length.

    Args:
        session: what is validated, and on which device.
        configured: the cache that was allocated as configured, which such a recommendation leaves as it is.
    """
    now = session.subject.workload
    for recommendation, proposal, changed in changing(session.subject):
        if changed == ONLY_LENGTH:
            if session.options.device == "cpu":
                judged = verdict(recommendation, Outcome.NOT_MEASURABLE, _("no bytes are counted on a CPU"))
            elif configured.says_nothing:
                judged = verdict(
                    recommendation, Outcome.NOT_MEASURABLE, _("no cache could be allocated here")
                )
            else:
                judged = _judge(recommendation, now, proposal, configured)
            yield judged.model_copy(update={"claim": _claim(now, proposal)})


def _claim(now: Workload, proposal: Workload) -> str:
    return _("longest sequence that the engine has to hold {before:,} to {after:,} tokens").format(
        before=_tokens(now), after=_tokens(proposal)
    )


def _judge(
    recommendation: Recommendation, now: Workload, proposal: Workload, configured: MeasuredRollout
) -> JudgedRecommendation:
    rooms = [_room(job, configured) for job in (now, proposal)]
    outcome = Outcome.CONFIRMED if all(agrees for agrees, _ in rooms) else Outcome.REFUTED
    reason = _("the cache that is allocated has {cache:.1f} GiB: {rooms}; time is not measured").format(
        cache=configured.cache_bytes / GIB, rooms=", ".join(text for _, text in rooms)
    )
    shown = (_shown(now, configured, "without"), _shown(proposal, configured, "with"))
    return verdict(recommendation, outcome, reason, shown)


def _room(job: Workload, configured: MeasuredRollout) -> tuple[bool, str]:
    """Whether one sequence fits, or does not, as predicted, and the figures that decide."""
    needed = built_sequence_bytes(job)
    predicted, measured = (size >= needed for size in (rollout_memory(job).kv_bytes, configured.cache_bytes))
    text = (
        _("one sequence of {tokens:,} tokens takes {needed:.1f} GiB and fits")
        if measured
        else _("one sequence of {tokens:,} tokens takes {needed:.1f} GiB and does not fit")
    ).format(tokens=_tokens(job), needed=needed / GIB)
    if measured is not predicted:
        text += (
            _(" where it was predicted that it fits")
            if predicted
            else _(" where it was predicted that it does not fit")
        )
    return measured is predicted, text


def _tokens(job: Workload) -> int:
    return rollout_memory(job).model_tokens


def _shown(job: Workload, configured: MeasuredRollout, which: str) -> Measurement:
    what = (
        _("KV cache with the change, for a sequence of {tokens:,} tokens")
        if which == "with"
        else _("KV cache without the change, for a sequence of {tokens:,} tokens")
    )
    return Measurement(
        name=f"rollout.kv_cache.{which}",
        what=what.format(tokens=_tokens(job)),
        unit="bytes",
        measured=configured.cache_bytes,
        predicted=max(0, rollout_memory(job).kv_bytes),
        extrapolated=configured.planned.extrapolated(),
        details={"sequence_bytes": built_sequence_bytes(job)},
    )
