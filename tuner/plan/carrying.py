"""How long responses may get before a job stops fitting, since they grow while a model learns.

Two numbers say it. One is the mean of the responses under the cap that is configured: static micro-batches
hold a fixed number of sequences, which may be beyond the card at full length and within it for weeks. The
other is the cap itself, up to which the job fits for certain whatever its responses do.
"""

from collections.abc import Callable
from functools import cache, partial
from math import ceil
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner import rules
from tuner.advise.reading import Reading
from tuner.findings import Finding, Written
from tuner.language import _
from tuner.memory import Estimate, estimate
from tuner.memory.fitting.lengths import SHORTEST_SHARE, largest_that_fits
from tuner.rules.case import Case, figures
from tuner.timing import Interval, StepTime, step_interval
from tuner.workload import Engine, Pass, Phase, Service, Workload


class Limit(Struct, frozen=True, kw_only=True):
    """What keeps responses from being one token longer."""

    phase: Annotated[Phase | None, Meta(description="the first to be beyond the card; null where none is")]
    reason: Annotated[str, Meta(description="what else is in the way; empty where a phase is")] = ""
    code: Annotated[str, Meta(description="of the rule or the check that says so")] = ""


class Reach(Struct, frozen=True, kw_only=True):
    """How long responses may get, and what a step takes with such."""

    tokens: int
    limit: Annotated[
        Limit | None,
        Meta(description="null where all that there can be fit: up to the cap, or to the model's positions"),
    ]
    step: Annotated[Interval, Meta(description="seconds of a step with so many tokens a response on average")]


class Carrying(Struct, frozen=True, kw_only=True):
    """How long responses may get before a job stops fitting for certain."""

    mean: Annotated[
        Reach | None,
        Meta(description="their mean under the cap that is configured; null where no mean is certain"),
    ]
    cap: Annotated[
        Reach | None, Meta(description="the cap, with everything else kept; null where none is certain")
    ]


def carrying(reading: Reading) -> Carrying:
    """How far a job carries as it is configured."""
    return Carrying(mean=mean_reach(reading.workload), cap=cap_reach(reading))


# -- the mean under the configured cap ---------------------------------------------------


def mean_reach(workload: Workload) -> Reach | None:
    """The largest mean of responses, under the cap that is configured, with which a job fits for certain.

    A micro-batch of packed sequences has the tokens that its responses have on average, and room for one of
    full length at least. Prompts are as long as is said, or as they can be. Where all are padded no mean
    decides.

    Returns:
        None where the job does not fit for certain with responses of an eighth of the cap either.
    """
    cap = int(workload.batch.longest_response_tokens)
    if estimate(workload).fits_for_certain():
        return Reach(tokens=cap, limit=None, step=_step(workload, cap))
    if not estimate(_one_by_one(workload)).fits_for_certain():
        return None

    @cache
    def at(tokens: int) -> Estimate:
        return estimate(with_mean(workload, tokens))

    least = ceil(SHORTEST_SHARE * cap)
    tokens = largest_that_fits(lambda tokens: _fits_with_excess(at(tokens)), cap, least=least)
    if tokens is None:
        return None
    limit = None if tokens == cap else _limit(at(tokens + 1))
    return Reach(tokens=tokens, limit=limit, step=_step(workload, tokens))


def with_mean(workload: Workload, tokens: int) -> Workload:
    """The job as memory sees it while its responses have so many tokens on average."""
    batch = workload.batch
    prompt = batch.max_prompt_tokens
    if batch.lengths.mean_prompt is not None:
        prompt = min(prompt, max(1, ceil(batch.mean_prompt_tokens)))
    return workload.with_batch(max_prompt_tokens=prompt, max_response_tokens=tokens)


def _one_by_one(workload: Workload) -> Workload:
    """The job with micro-batches of one sequence, which may have full length whatever the mean is.

    Those that are padded stay: all of their sequences are computed as if they had full length.
    """

    def narrowed(work: Pass, engine: Engine) -> Pass:
        if not engine.packed:
            return work
        alone = replace(work.batching, token_budget=1, micro_batch_sequences=1, hard_limit=True)
        return replace(work, batching=alone)

    def scoring_narrowed(service: Service) -> Service:
        if service.scoring is None or service.engine is None:
            return service
        return replace(service, scoring=narrowed(service.scoring, service.engine))

    actor, reference, critic = workload.actor, workload.reference, workload.critic
    log_prob = None if actor.log_prob is None else narrowed(actor.log_prob, actor.engine)
    workload = workload.with_actor(update=narrowed(actor.update, actor.engine), log_prob=log_prob)
    if reference is not None:
        workload = workload.with_reference(log_prob=narrowed(reference.log_prob, reference.engine))
    if critic is not None:
        update, values = narrowed(critic.update, critic.engine), narrowed(critic.values, critic.engine)
        workload = workload.with_critic(update=update, values=values)
    return replace(workload, services=tuple(map(scoring_narrowed, workload.services)))


# -- the cap -----------------------------------------------------------------------------


def cap_reach(reading: Reading) -> Reach | None:
    """The largest cap of responses with which a job fits for certain, everything else kept.

    Each cap is written for the trainer and read back, with all that goes by it; what the trainer or its
    engine refuses from a cap on is in the way as well.

    Returns:
        None where no cap fits for certain, or where the trainer has no key for it.
    """
    caps, refused, limit = Caps(reading), None, None
    try:
        tokens = _largest_cap(reading.workload, caps)
        if tokens is None:
            return None
        tokens, refused = _not_refused(caps, tokens)
        if tokens < most_positions(reading.workload):
            limit = _limit_of_cap(caps.workload(tokens + 1), refused)
    except ValueError:  # no key says how long responses may get, or not one alone
        return None
    return Reach(tokens=tokens, limit=limit, step=_step(caps.workload(tokens), tokens))


def _largest_cap(workload: Workload, caps: "Caps") -> int | None:
    """The largest cap that memory and the engine have room for; None where they have for none.

    It is looked for in the model's own terms, where no cap has to be read. Where what is read back says
    otherwise of it, or of one token more, caps are read from the beginning.
    """
    now, most = workload.batch.max_response_tokens, _longest_cap(workload)

    def search(of: Callable[[int], Workload]) -> int | None:
        judge = cache(lambda cap: _carries_with_excess(of(cap)))
        low, high = (now, most) if now < most and judge(now)[0] else (1, min(now, most))
        return largest_that_fits(judge, high, least=low)

    tokens = search(partial(_with_cap, workload))
    if tokens is None:
        return search(caps.workload)
    limits = ((tokens, True), *([(tokens + 1, False)] if tokens < most else []))
    as_read = all(
        caps.workload(cap) == _with_cap(workload, cap) or carries(caps.workload(cap)) is fits
        for cap, fits in limits
    )
    return tokens if as_read else search(caps.workload)


def most_positions(workload: Workload) -> int:
    """The longest response that the model has positions for; no less than the cap that is configured."""
    batch = workload.batch
    return max(batch.max_response_tokens, workload.model.max_positions - batch.max_prompt_tokens)


def _longest_cap(workload: Workload) -> int:
    """The largest cap that is asked about: beyond it the engine ends responses, or the model does."""
    batch, positions = workload.batch, most_positions(workload)
    return positions if batch.engine_tokens is None else max(1, batch.engine_tokens - batch.max_prompt_tokens)


class Caps:
    """A configuration with other caps of responses; to ask for one that no key says is a ValueError."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._written: dict[int, Written] = {}

    def workload(self, cap: int) -> Workload:
        """What the trainer makes of it with a cap."""
        return self._at(cap).workload

    def overrides(self, cap: int) -> tuple[str, ...]:
        """What sets a cap; nothing for the one that is configured."""
        return self._at(cap).overrides

    def reading(self, cap: int) -> Reading:
        """The configuration with a cap, for the trainer to check."""
        overrides = self.overrides(cap)
        return self._reading.adding(overrides) if overrides else self._reading

    def _at(self, cap: int) -> Written:
        if cap not in self._written:
            self._written[cap] = self._write(cap)
        return self._written[cap]

    def _write(self, cap: int) -> Written:
        workload = self._reading.workload
        if cap == workload.batch.max_response_tokens:
            return Written(overrides=(), workload=workload)
        written = self._reading.write(_with_cap(workload, cap))
        if written.workload.batch.max_response_tokens != cap:
            raise ValueError("the trainer reads another length")
        return written


def _with_cap(workload: Workload, cap: int) -> Workload:
    """The job with another cap, and with an engine that is built for its sequences if it was so before."""
    longer, rollout = workload.with_batch(max_response_tokens=cap, engine_tokens=None), workload.rollout
    if rollout is None or rollout.max_model_tokens != workload.batch.sequence_tokens:
        return longer
    return longer.with_rollout(max_model_tokens=longer.batch.sequence_tokens)


def carries(workload: Workload) -> bool:
    """Whether a job fits for certain, and its engine lets sequences get as long as their maximum."""
    return _carries_with_excess(workload)[0]


def _carries_with_excess(workload: Workload) -> tuple[bool, int]:
    """Whether it does, and by how many bytes the worst phase may be over the card."""
    fits, over = _fits_with_excess(estimate(workload))
    return fits and workload.batch.reached_tokens == workload.batch.sequence_tokens, over


def _not_refused(caps: Caps, tokens: int) -> tuple[int, Finding | None]:
    """The largest cap up to some that nothing refuses, and what refuses the next one.

    What refuses responses of one token as well is not asked: it does not go by their length.
    """
    if not length_refusals(caps.reading(tokens)):
        return tokens, None
    always = {finding.code for finding in length_refusals(caps.reading(1))}

    @cache
    def refused(cap: int) -> Finding | None:
        return next(
            (finding for finding in length_refusals(caps.reading(cap)) if finding.code not in always), None
        )

    if refused(tokens) is None:
        return tokens, None
    low, high = 1, tokens
    for cap in _whole_sequences(caps.workload(tokens)):  # where most refusals begin
        if low < cap < high and refused(cap) is None and refused(cap + 1) is not None:
            return cap, refused(cap + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if refused(middle) is None else (low, middle)
    return low, refused(high)


def length_refusals(reading: Reading) -> list[Finding]:
    """What the trainer or an engine refuses of a job, or fails in once a response has full length."""
    of_rules = rules.refusals(Case.of(reading.workload, headroom=0.0))
    return [finding for finding in (*reading.findings, *of_rules) if finding.rule.refuses]


def _whole_sequences(workload: Workload) -> list[int]:
    """Caps up to which a token budget of the trainer or of the engine holds a whole sequence, ascending."""
    passes = [one for one in workload.passes() if one.batching.dynamic]
    held = {one.batching.token_budget * one.engine.parallel.sequence_split for one in passes}
    if workload.rollout is not None:
        held.add(workload.rollout.max_batched_tokens)
    return sorted(tokens - workload.batch.max_prompt_tokens for tokens in held)


def _limit_of_cap(beyond: Workload, refused: Finding | None) -> Limit | None:
    """What is in the way of a cap that does not fit."""
    if refused is not None:
        return Limit(phase=refused.phase, reason=refused.message, code=refused.code)
    ends = beyond.batch.engine_tokens
    if ends is not None:
        return Limit(
            phase=None, reason=_("the rollout engine ends sequences at {tokens:,} tokens").format(tokens=ends)
        )
    return _limit(estimate(beyond))


# -- what both ask -----------------------------------------------------------------------


def _fits_with_excess(estimated: Estimate) -> tuple[bool, int]:
    """Whether a job fits for certain, and by how many bytes its worst phase may be over the card."""
    return estimated.fits_for_certain(), estimated.high_bytes - estimated.capacity_bytes


def _limit(estimated: Estimate) -> Limit | None:
    """Why a job does not fit for certain; None where it does."""
    if estimated.problems:
        return Limit(phase=None, reason=estimated.problems[0])
    worst = max(estimated.phases, key=lambda phase: phase.interval[1])
    if worst.interval[1] > estimated.capacity_bytes:
        return Limit(phase=worst.phase)
    return Limit(phase=None, reason=estimated.doubts[0]) if estimated.doubts else None


def _step(workload: Workload, tokens: int) -> Interval:
    return step_interval(time_with(workload, tokens), workload.cluster)


def time_with(workload: Workload, tokens: int) -> StepTime:
    """Seconds of a step whose responses have so many tokens on average."""
    lengths = replace(workload.batch.lengths, mean_response=tokens, response_p95=None, response_max=None)
    return figures(workload.with_batch(lengths=lengths)).time
