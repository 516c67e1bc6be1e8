"""Verdicts on the length that the rollout engine is built for: whether one such sequence has room here.

Such a recommendation claims no bytes and no seconds. What it claims is a start: vLLM refuses a cache that is
smaller than one sequence of that length.
"""

from collections.abc import Iterator

from tuner.memory.engine_memory import cache_problem, rollout_memory
from tuner.memory.kv_cache import kv_bytes_per_sequence
from tuner.units import GIB
from tuner.validate.report import JudgedRecommendation, Measurement, Outcome
from tuner.validate.rollout_judged import ONLY_LENGTH, changing
from tuner.validate.rollout_seen import SeenRollout
from tuner.validate.session import Session
from tuner.validate.verdicts import verdict
from tuner.workload import Workload


def judge_lengths(session: Session, configured: SeenRollout) -> Iterator[JudgedRecommendation]:
    """One verdict for each recommendation that changes nothing of the rollout but this length.

    Args:
        session: what is validated, and on which device.
        configured: the cache that was allocated as configured, which such a recommendation leaves as it is.
    """
    for recommendation, proposal, changed in changing(session.subject):
        if changed != ONLY_LENGTH:
            continue
        if session.options.device == "cpu":
            yield verdict(recommendation, Outcome.NOT_MEASURABLE, "no bytes are counted on a CPU")
        elif configured.says_nothing:
            yield verdict(recommendation, Outcome.NOT_MEASURABLE, "no cache could be allocated here")
        else:
            now = session.subject.workload
            found = [_room(job, configured) for job in (now, proposal)]
            outcome = Outcome.CONFIRMED if all(each for each, _ in found) else Outcome.REFUTED
            shown = tuple(
                _shown(job, configured, which) for job, which in ((now, "without"), (proposal, "with"))
            )
            reason = (
                f"the cache that is allocated has {configured.cache_bytes / GIB:.1f} GiB: "
                f"{', '.join(text for _, text in found)}; time is not measured"
            )
            judged = verdict(recommendation, outcome, reason, shown)
            yield judged.model_copy(update={"claim": _claim(now, proposal)})


def _claim(now: Workload, proposal: Workload) -> str:
    return f"longest sequence that the engine has to hold {_tokens(now):,} to {_tokens(proposal):,} tokens"


def _tokens(job: Workload) -> int:
    return rollout_memory(job).model_tokens


def _room(job: Workload, configured: SeenRollout) -> tuple[bool, str]:
    """Whether one sequence fits, or does not, as predicted, and the figures that decide."""
    predicted = cache_problem(job, rollout_memory(job).kv_bytes) is None
    found = cache_problem(job, int(configured.cache_bytes)) is None
    text = f"one sequence of {_tokens(job):,} tokens takes {_bytes(job) / GIB:.1f} GiB and {_said(found)}"
    return (
        found is predicted,
        text if found is predicted else f"{text} where it was predicted that it {_said(predicted)}",
    )


def _said(fits: bool) -> str:
    return "fits" if fits else "does not fit"


def _bytes(job: Workload) -> int:
    rollout = job.rollout
    return kv_bytes_per_sequence(job.model, rollout, _tokens(job), prefilled=rollout.max_batched_tokens)


def _shown(job: Workload, configured: SeenRollout, which: str) -> Measurement:
    return Measurement(
        name=f"rollout.kv_cache.{which}",
        what=f"KV cache {which} the change, for a sequence of {_tokens(job):,} tokens",
        unit="bytes",
        measured=configured.cache_bytes,
        predicted=max(0, rollout_memory(job).kv_bytes),
        extrapolated=configured.planned.extrapolated(),
        details={"sequence_bytes": _bytes(job)},
    )
