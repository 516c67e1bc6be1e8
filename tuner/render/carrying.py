"""How far a job carries, in words: how long its responses may get, what binds then, what a step takes."""

from collections.abc import Iterator

from tuner.advise import Verdict
from tuner.consultation.carrying import carried_job
from tuner.consultation.result import Consultation
from tuner.language import _
from tuner.plan.carrying import Limit, Reach, cap_reach, mean_reach
from tuner.plan.lengthening import Lengthening, Longest
from tuner.render.document.marks import user_text
from tuner.render.numbers import seconds, seconds_change
from tuner.render.words import clauses, full_stop
from tuner.workload import Workload


def carried_in_short(answer: Consultation) -> Iterator[str]:
    """Up to which mean a job fits that may not at its longest, or up to which cap; empty where neither is."""
    job = None if answer.advice.is_refused else carried_job(answer)
    if job is None or answer.advice.memory_verdict is not Verdict.MAY_NOT_FIT:
        return
    mean = mean_reach(job.workload)
    if mean is not None:
        yield full_stop(_of_mean(job.workload, mean))
        return
    cap = cap_reach(job)
    if cap is not None:
        yield full_stop(_of_cap(job.workload, cap))


def carried(answer: Consultation) -> Iterator[str]:
    """Up to which mean a job fits under its cap, and up to which cap."""
    job = carried_job(answer)
    if job is None:
        return
    mean, cap = mean_reach(job.workload), cap_reach(job)
    texts = []
    if mean is not None:
        texts.append(_of_mean(job.workload, mean))
    if cap is not None and (mean is None or cap.tokens != mean.tokens):
        texts.append(_of_cap(job.workload, cap))
    yield from map(full_stop, texts)


def longest_response(workload: Workload, answer: Longest) -> Iterator[str]:
    """The longest response that a layout has room for, and what lengthens it next, at which price."""
    if answer.cap is None:
        yield _("No length of responses is sure to fit.")
        return
    yield full_stop(_of_cap(workload, answer.cap))
    way = answer.next
    if way is not None:
        yield full_stop(_of_way(workload, answer.cap, way))
    elif answer.cap.limit is not None:
        yield _("No single proposal lengthens it.")


def _of_way(workload: Workload, cap: Reach, way: Lengthening) -> str:
    """What lengthens responses, up to which length, and what that costs where both ways fit."""
    text = _("Up to {tokens:,} tokens with {overrides} ({why}: {code})")
    if way.yours:
        text = _("Up to {tokens:,} tokens with {overrides}, yours to decide ({why}: {code})")
    further = text.format(
        tokens=way.cap.tokens,
        overrides=user_text(_(" and ").join(way.overrides)),
        why=_(way.finding.rule.summary),
        code=way.code,
    )
    price = _("at {tokens:,} tokens {change}").format(
        tokens=cap.tokens,
        change=seconds_change(way.seconds_before, way.step, way.change, workload.cluster.gpu.name),
    )
    beyond = [] if way.cap.limit is None else [_binding(way.cap.limit)]
    return clauses([further, *beyond, price])


def _of_mean(workload: Workload, mean: Reach) -> str:
    """The mean under the cap that is configured; the longest responses, where the job fits with these."""
    step = seconds(mean.step, workload.cluster.gpu.name)
    if mean.limit is None:
        text = (
            _("Fits at its longest: a step with responses of {tokens:,} tokens takes {step}")
            if workload.rollout is not None
            else _("Fits at its longest: a step with sequences of {tokens:,} tokens takes {step}")
        )
        return text.format(tokens=mean.tokens, step=step)
    text = (
        _("Carries responses up to a mean of {tokens:,} tokens for certain (cap {cap:,})")
        if workload.rollout is not None
        else _("Carries sequences up to a mean of {tokens:,} tokens for certain (cap {cap:,})")
    )
    carries = text.format(tokens=mean.tokens, cap=workload.batch.max_response_tokens)
    return clauses([carries, _binding(mean.limit), _("a step takes {step} there").format(step=step)])


def _of_cap(workload: Workload, cap: Reach) -> str:
    """The cap up to which a job fits for certain."""
    step = _("a step takes {step} there").format(step=seconds(cap.step, workload.cluster.gpu.name))
    text = _("Carries a cap of up to {tokens:,} tokens for certain ({cap:,} now)").format(
        tokens=cap.tokens, cap=workload.batch.max_response_tokens
    )
    if cap.limit is None:
        return clauses([text, _("the model has no more positions"), step])
    return clauses([text, _binding(cap.limit), step])


def _binding(limit: Limit) -> str:
    """What is in the way of longer responses."""
    if limit.code:
        return _("then {reason} ({code})").format(reason=user_text(limit.reason), code=limit.code)
    if limit.phase is not None:
        return _("then {phase} binds").format(phase=limit.phase.value)
    return _("then {reason}").format(reason=user_text(limit.reason))
