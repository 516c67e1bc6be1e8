"""What vLLM's own engine came to beside the prediction, and verdicts on what changes it."""

from collections.abc import Iterator, Mapping
from statistics import geometric_mean, median

from msgspec import structs

from tuner.advise import Recommendation
from tuner.language import _
from tuner.memory.rollout.capacity import rollout_memory
from tuner.timing import step_time
from tuner.timing.corrections import OperatorFamily
from tuner.timing.decode import RolloutInput
from tuner.timing.generation.step import (
    decode_step_parts,
    of_one_engine,
    preparing_seconds,
    step_prices,
)
from tuner.validate.report.profile import FACTOR_TOLERANCE, PROFILE_FIGURES
from tuner.validate.report.schema import JudgedRecommendation, Measurement, Outcome
from tuner.validate.report.verdicts import takes_longer, verdict
from tuner.validate.rollout.plan import PlannedRollout
from tuner.validate.rollout.settings import VllmFigures
from tuner.validate.rollout.verdicts import SEQUENCES_TOLERANCE
from tuner.workload import Phase, Workload

Started = tuple[PlannedRollout, VllmFigures]


def engine_measurements(planned: PlannedRollout, figures: VllmFigures) -> Iterator[Measurement]:
    """What vLLM as configured came to, beside its predictions."""
    yield _cache(
        planned, figures, "rollout.engine_cache", _("tokens that the KV cache of vLLM's own engine holds")
    )
    low, high = planned.phase.interval
    yield Measurement(
        name="rollout.engine_peak",
        what=_("used on the GPU once vLLM's own engine has generated, with the trainer's tensors beside it"),
        unit="bytes",
        measured=figures.used_bytes,
        predicted=planned.phase.peak_bytes,
        low=low,
        high=high,
        details={"weights_bytes": planned.predicted.weight_bytes, "ready_after_s": figures.ready_seconds},
    )
    yield _step(planned, figures, "rollout.engine_step", _("one decoding step of vLLM's own engine"))
    yield from _host(planned, figures)


def _host(planned: PlannedRollout, figures: VllmFigures) -> Iterator[Measurement]:
    """How fast the host prepares steps, where steps of two numbers of sequences tell it.

    Both together tell a step from each of its sequences. Where they do not, one factor is the geometric mean
    over both. Beside it stand the host's own seconds for each sequence that one has more than the other.
    """
    inputs = _as_started(planned)
    typical = _without_factor(inputs)
    steps = {figures.sequences: figures.step_seconds, figures.fewer: figures.fewer_seconds}
    seconds = {sequences: median(taken) for sequences, taken in steps.items() if sequences and taken}
    seconds_by_batch = {
        sequences: host
        for sequences, step in seconds.items()
        if (host := preparing_seconds(typical, sequences, step)) is not None
    }
    if not seconds_by_batch:
        return
    prices = step_prices(typical)
    factors = {
        sequences: (prices.step + of_one_engine(typical, sequences) * prices.sequence) / host
        for sequences, host in seconds_by_batch.items()
    }
    details: dict[str, float | int | str | bool] = {
        f"sequences_{sequences}": factor for sequences, factor in factors.items()
    }
    if len(seconds) > 1:
        (fewer, least), (more, most) = sorted(seconds.items())
        details["seconds_of_one_more"] = (most - least) / (more - fewer)
    apart = _apart({of_one_engine(typical, sequences): host for sequences, host in seconds_by_batch.items()})
    if apart is None:
        what = _("preparing the steps of a rollout engine on the host, measured over modelled rate")
        yield _factor(inputs, OperatorFamily.ENGINE, what, geometric_mean(factors.values()), details)
        return
    what = _("preparing a step of a rollout engine without its sequences, measured over modelled rate")
    yield _factor(inputs, OperatorFamily.ENGINE, what, prices.step / apart[0], details)
    what = _("preparing each sequence of a rollout engine's step, measured over modelled rate")
    yield _factor(inputs, OperatorFamily.ENGINE_SEQUENCE, what, prices.sequence / apart[1], {})


def _apart(seconds_by_batch: Mapping[float, float]) -> tuple[float, float] | None:
    """Seconds of a step and of each of its sequences, by two steps; None where they do not tell."""
    if len(seconds_by_batch) < 2:
        return None
    (fewer, least), (more, most) = sorted(seconds_by_batch.items())
    sequence = (most - least) / (more - fewer)
    step = least - fewer * sequence
    return (step, sequence) if step > 0 and sequence > 0 else None


def _factor(
    inputs: RolloutInput,
    family: OperatorFamily,
    what: str,
    factor: float,
    details: dict[str, float | int | str | bool],
) -> Measurement:
    measured = inputs.cluster.gpu.measured
    before: float | None = None if measured is None else getattr(measured, family.value)
    return Measurement(
        name=PROFILE_FIGURES[family.value],
        what=what,
        unit="share",
        measured=factor,
        predicted=before,
        tolerance=None if before is None else FACTOR_TOLERANCE,
        details=details,
    )


def _as_started(planned: PlannedRollout) -> RolloutInput:
    """The rollout of the engine that is measured: on one GPU its worker is in the scheduler's process.

    vLLM's own ``LLM`` starts it so, where a trainer's server does not, and nobody asks it for
    log-probabilities.
    """
    inputs = RolloutInput.of(planned.workload)
    alone = inputs.rollout.replica_gpus == 1
    rollout = structs.replace(
        inputs.rollout, own_process=inputs.rollout.own_process and not alone, returns_log_probs=False
    )
    return structs.replace(inputs, rollout=rollout)


def _without_factor(inputs: RolloutInput) -> RolloutInput:
    """The rollout beside a host that nobody measured, over whose rate the factor is."""
    cluster = inputs.cluster
    measured = cluster.gpu.measured
    if measured is None:
        return inputs
    gpu = structs.replace(
        cluster.gpu, measured=structs.replace(measured, engine_factor=None, engine_sequence_factor=None)
    )
    return structs.replace(inputs, cluster=structs.replace(cluster, gpu=gpu))


def judge_engine(recommendation: Recommendation, before: Started, after: Started) -> JudgedRecommendation:
    """A verdict on the tokens of the cache, and on the direction of the time.

    The cache with the change has to hold as many tokens as predicted; and where the time model says that the
    rollout gets no longer, a token must not take longer by more than its repetitions differ.
    """
    (planned, changed), (configured, without) = after, before
    cache = _cache(planned, changed, "rollout.engine_cache.with", _("the same with the change"))
    claimed = _seconds(planned.workload) / _seconds(configured.workload) - 1
    slower = takes_longer(claimed, without.token_seconds, changed.token_seconds)
    first, second = (1 / median(figures.token_seconds) for figures in (without, changed))
    text = _(
        "vLLM's own engine: cache {before:,} to {after:,} tokens, {predicted:,} were "
        "predicted; decoding {fewer:,} to {more:,} sequences at once gives "
        "{first:,.0f} to {second:,.0f} tokens/s ({change:+.1%}; repetitions differ by up "
        "to {spread:.1%})"
    ).format(
        before=without.tokens,
        after=changed.tokens,
        predicted=int(cache.predicted or 0),
        fewer=without.sequences,
        more=changed.sequences,
        first=first,
        second=second,
        change=second / first - 1,
        spread=_spread(without, changed),
    )
    if slower:
        text += _(", although {slower} was modelled for the time of the rollout").format(slower=slower)
    holds = cache.outcome is not Outcome.REFUTED and not slower
    shown = (
        _cache(
            configured,
            without,
            "rollout.engine_cache.without",
            _("tokens of vLLM's cache without the change"),
        ),
        cache,
        _step(configured, without, "rollout.engine_step.without", _("one decoding step without the change")),
        _step(planned, changed, "rollout.engine_step.with", _("the same with the change")),
    )
    return verdict(recommendation, Outcome.CONFIRMED if holds else Outcome.REFUTED, text, shown)


def _spread(*starts: VllmFigures) -> float:
    """By which share the seconds of a token differ among repetitions and starts, at most."""
    repetitions = (one.token_seconds for one in starts)
    return max((max(seconds) - min(seconds)) / median(seconds) for seconds in repetitions)


def _seconds(workload: Workload) -> float:
    """Seconds that the time model has for the whole rollout."""
    concurrent = rollout_memory(workload).concurrent_sequences
    modelled = step_time(workload, concurrent_sequences=concurrent).phase(Phase.ROLLOUT)
    assert modelled is not None  # every job has one
    return modelled.seconds


def _cache(planned: PlannedRollout, figures: VllmFigures, name: str, what: str) -> Measurement:
    predicted = planned.predicted_blocks * planned.wanted.block_tokens
    return Measurement(
        name=name,
        what=what,
        unit="tokens",
        measured=figures.tokens,
        predicted=predicted,
        low=(1 - SEQUENCES_TOLERANCE) * predicted,
        high=(1 + SEQUENCES_TOLERANCE) * predicted,
        details={
            "blocks": figures.blocks,
            "block_tokens": figures.block_tokens,
            "version": figures.version,
            "counted_on_version": planned.workload.generator.engine_version,
        },
    )


def _step(planned: PlannedRollout, figures: VllmFigures, name: str, what: str) -> Measurement:
    """Beside the time model's, which claims no accuracy."""
    modelled = decode_step_parts(_as_started(planned), figures.sequences)
    return Measurement(
        name=name,
        what=_("{what}, {sequences:,} sequences of mean length").format(
            what=what, sequences=figures.sequences
        ),
        unit="seconds",
        measured=median(figures.step_seconds),
        predicted=sum(modelled.values()),
        details={
            "starts": figures.starts,
            "repetitions": len(figures.step_seconds),
            "least": min(figures.step_seconds),
            "most": max(figures.step_seconds),
        },
    )
