"""Verdicts on the length that the rollout engine is built for: whether one such sequence has room here.

Such a recommendation claims no bytes and no seconds. What it claims is room: vLLM does not start with a cache
that is smaller than one sequence of that length.
"""

from collections.abc import Iterator

from tuner.advise import Recommendation
from tuner.memory.rollout.capacity import built_sequence_bytes, rollout_memory
from tuner.units import GIB
from tuner.validate.report.schema import JudgedRecommendation, Measurement, Outcome
from tuner.validate.report.verdicts import verdict
from tuner.validate.rollout.judged import ONLY_LENGTH, changing
from tuner.validate.rollout.seen import SeenRollout
from tuner.validate.session import Session
from tuner.workload import Workload


def judge_lengths(session: Session, configured: SeenRollout) -> Iterator[JudgedRecommendation]:
    """One verdict for each recommendation that changes nothing of the rollout but this length.

    Args:
        session: what is validated, and on which device.
        configured: the cache that was allocated as configured, which such a recommendation leaves as it is.
    """
    now = session.subject.workload
    for recommendation, proposal, changed in changing(session.subject):
        if changed == ONLY_LENGTH:
            if session.options.device == "cpu":
                judged = verdict(recommendation, Outcome.NOT_MEASURABLE, "no bytes are counted on a CPU")
            elif configured.says_nothing:
                judged = verdict(recommendation, Outcome.NOT_MEASURABLE, "no cache could be allocated here")
            else:
                judged = _judge(recommendation, now, proposal, configured)
            yield judged.model_copy(update={"claim": _claim(now, proposal)})


def _claim(now: Workload, proposal: Workload) -> str:
    return f"longest sequence that the engine has to hold {_tokens(now):,} to {_tokens(proposal):,} tokens"


def _judge(
    recommendation: Recommendation, now: Workload, proposal: Workload, configured: SeenRollout
) -> JudgedRecommendation:
    rooms = [_room(job, configured) for job in (now, proposal)]
    outcome = Outcome.CONFIRMED if all(agrees for agrees, _ in rooms) else Outcome.REFUTED
    reason = (
        f"the cache that is allocated has {configured.cache_bytes / GIB:.1f} GiB: "
        f"{', '.join(text for _, text in rooms)}; time is not measured"
    )
    shown = (_shown(now, configured, "without"), _shown(proposal, configured, "with"))
    return verdict(recommendation, outcome, reason, shown)


def _room(job: Workload, configured: SeenRollout) -> tuple[bool, str]:
    """Whether one sequence fits, or does not, as predicted, and the figures that decide."""
    needed = built_sequence_bytes(job)
    predicted, measured = (size >= needed for size in (rollout_memory(job).kv_bytes, configured.cache_bytes))
    text = f"one sequence of {_tokens(job):,} tokens takes {needed / GIB:.1f} GiB and {_said(measured)}"
    if measured is not predicted:
        text += f" where it was predicted that it {_said(predicted)}"
    return measured is predicted, text


def _said(fits: bool) -> str:
    return "fits" if fits else "does not fit"


def _tokens(job: Workload) -> int:
    return rollout_memory(job).model_tokens


def _shown(job: Workload, configured: SeenRollout, which: str) -> Measurement:
    return Measurement(
        name=f"rollout.kv_cache.{which}",
        what=f"KV cache {which} the change, for a sequence of {_tokens(job):,} tokens",
        unit="bytes",
        measured=configured.cache_bytes,
        predicted=max(0, rollout_memory(job).kv_bytes),
        extrapolated=configured.planned.extrapolated(),
        details={"sequence_bytes": built_sequence_bytes(job)},
    )
