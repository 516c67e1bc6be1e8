"""What vLLM's own engine came to beside the prediction, and verdicts on what changes it."""

from collections.abc import Iterator
from statistics import median

from tuner.advise import Recommendation
from tuner.memory.rollout.capacity import rollout_memory
from tuner.timing import step_time
from tuner.timing.decode import RolloutInput, decode_step_parts
from tuner.validate.report.schema import JudgedRecommendation, Measurement, Outcome
from tuner.validate.report.verdicts import takes_longer, verdict
from tuner.validate.rollout.judged import SEQUENCES_TOLERANCE
from tuner.validate.rollout.plan import PlannedRollout
from tuner.validate.rollout.settings import EngineFigures
from tuner.workload import Phase, Workload

Started = tuple[PlannedRollout, EngineFigures]


def engine_measurements(planned: PlannedRollout, found: EngineFigures) -> Iterator[Measurement]:
    """Of the engine as configured."""
    yield _cache(
        planned, found, "rollout.engine_cache", "tokens that the KV cache of vLLM's own engine holds"
    )
    low, high = planned.phase.interval
    yield Measurement(
        name="rollout.engine_peak",
        what="used on the GPU once vLLM's own engine has generated, with the trainer's tensors beside it",
        unit="bytes",
        measured=found.used_bytes,
        predicted=planned.phase.peak_bytes,
        low=low,
        high=high,
        details={"weights_bytes": planned.predicted.weight_bytes, "ready_after_s": found.ready_seconds},
    )
    yield _step(planned, found, "rollout.engine_step", "one decoding step of vLLM's own engine")


def judge_engine(recommendation: Recommendation, before: Started, after: Started) -> JudgedRecommendation:
    """A verdict on the tokens of the cache, and on the direction of the time.

    The cache with the change has to hold as many tokens as predicted; and where the time model says that the
    rollout gets no longer, a token must not take longer by more than its repetitions differ.
    """
    (planned, found), (configured, without) = after, before
    cache = _cache(planned, found, "rollout.engine_cache.with", "the same with the change")
    claimed = _seconds(planned.workload) / _seconds(configured.workload) - 1
    slower = takes_longer(claimed, without.token_seconds, found.token_seconds)
    first, second = (1 / median(each.token_seconds) for each in (without, found))
    text = (
        f"vLLM's own engine: cache {without.tokens:,} to {found.tokens:,} tokens, "
        f"{int(cache.predicted or 0):,} were predicted; decoding {without.sequences:,} to "
        f"{found.sequences:,} sequences at once gives {first:,.0f} to {second:,.0f} tokens/s "
        f"({second / first - 1:+.1%}; repetitions differ by up to {_spread(without, found):.1%})"
    )
    if slower:
        text += f", although {slower} was modelled for the time of the rollout"
    holds = cache.outcome is not Outcome.REFUTED and not slower
    shown = (
        _cache(
            configured, without, "rollout.engine_cache.without", "tokens of vLLM's cache without the change"
        ),
        cache,
        _step(configured, without, "rollout.engine_step.without", "one decoding step without the change"),
        _step(planned, found, "rollout.engine_step.with", "the same with the change"),
    )
    return verdict(recommendation, Outcome.CONFIRMED if holds else Outcome.REFUTED, text, shown)


def _spread(*found: EngineFigures) -> float:
    """By which share the seconds of a token differ among repetitions and starts, at most."""
    each = (one.token_seconds for one in found)
    return max((max(seconds) - min(seconds)) / median(seconds) for seconds in each)


def _seconds(workload: Workload) -> float:
    """Of the whole rollout, modelled."""
    concurrent = rollout_memory(workload).concurrent_sequences
    found = step_time(workload, concurrent_sequences=concurrent).phase(Phase.ROLLOUT)
    assert found is not None  # every job has one
    return found.seconds


def _cache(planned: PlannedRollout, found: EngineFigures, name: str, what: str) -> Measurement:
    predicted = planned.predicted_blocks * planned.wanted.block_tokens
    return Measurement(
        name=name,
        what=what,
        unit="tokens",
        measured=found.tokens,
        predicted=predicted,
        low=(1 - SEQUENCES_TOLERANCE) * predicted,
        high=(1 + SEQUENCES_TOLERANCE) * predicted,
        details={
            "blocks": found.blocks,
            "block_tokens": found.block_tokens,
            "version": found.version,
            "counted_on_version": planned.workload.rollout.engine_version,
        },
    )


def _step(planned: PlannedRollout, found: EngineFigures, name: str, what: str) -> Measurement:
    """Beside the time model's, which claims no accuracy."""
    modelled = decode_step_parts(RolloutInput.of(planned.workload), found.sequences)
    return Measurement(
        name=name,
        what=f"{what}, {found.sequences:,} sequences of mean length",
        unit="seconds",
        measured=median(found.step_seconds),
        predicted=sum(modelled.values()),
        details={
            "starts": found.starts,
            "repetitions": len(found.step_seconds),
            "least": min(found.step_seconds),
            "most": max(found.step_seconds),
        },
    )
