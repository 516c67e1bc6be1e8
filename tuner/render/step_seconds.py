"""The seconds of a step, its phases and a checkpoint in words, with their intervals and what they rest on."""

from typing import TYPE_CHECKING

from tuner.advise import Advice
from tuner.consultation.premises import OPTIONS
from tuner.counted import counted
from tuner.hardware import Cluster
from tuner.language import _
from tuner.render.lengths import assumed_lengths
from tuner.render.numbers import gib, phase_seconds, rests_on, seconds
from tuner.render.words import clauses, listed, sentence
from tuner.rules.wording import around, duration
from tuner.timing import PROFILE, Interval, halving, narrowings, phase_interval, step_interval
from tuner.timing.saving import storage_bytes_per_s
from tuner.units import GIGA
from tuner.workload.validation import KnownRows

if TYPE_CHECKING:
    from tuner.consultation.between_steps import PricedValidation
    from tuner.timing.validating import ValidationTime

Ends = tuple[float, float, float]  # the least, typical, the most

_SECONDS_OF_HOUR = 3600
_LEAST = 0.005  # of the step; a shorter phase is not named
_UNSURE = 2.0  # times the lower end of an interval, at which its upper end is worth a word
_FEWEST_STEPS = 20  # whose hours are told: fewer take no longer than the start, which is not in them


def step_seconds(advice: Advice) -> str:
    """The step, then its phases, the longest first; empty for a job without seconds."""
    time, cluster = advice.time, advice.workload.cluster
    if time.seconds <= 0:
        return ""
    phases = listed(
        f"{phase.phase.value} {phase_seconds(phase_interval(phase, cluster))}"
        for phase in sorted(time.phases, key=lambda phase: phase.seconds, reverse=True)
        if phase.seconds >= _LEAST * time.seconds
    )
    step = clauses([seconds(advice.step, cluster.gpu.name), *assumed_lengths(advice.workload)])
    if time.apart:
        return _("Step time: {step}. {at_once}. The phases, in seconds: {phases}.").format(
            step=step, at_once=sentence(at_once(advice)).rstrip("."), phases=phases
        )
    return _("Step time: {step}. It is the sum of its phases, in seconds: {phases}.").format(
        step=step, phases=phases
    )


def narrower(advice: Advice) -> str:
    """What would make the interval of the step narrower; empty where all of that is known."""
    said = narrowings(advice.time, advice.workload.cluster)
    if not said:
        return ""
    options = (
        _("{share:.0%} of its width with {option}").format(option=OPTIONS[one.name], share=one.width_share)
        for one in said
    )
    return _("Its interval would be narrower if somebody said more: {options}.").format(
        options=listed(options)
    )


def halved(advice: Advice) -> str:
    """The phase whose seconds are the least sure, with what halves its interval; empty where nothing does.

    A phase whose upper end is below twice the lower one is sure enough.
    """
    least_sure = halving(advice.time, advice.workload.cluster)
    if least_sure is None or least_sure.interval.high_s < _UNSURE * least_sure.interval.low_s:
        return ""
    names = [
        "tuner validate --write-profile" if name == PROFILE else OPTIONS[name] for name in least_sure.names
    ]
    return _("{phase} may take {low} to {high} s; {said} would leave {share:.0%} of that width.").format(
        phase=least_sure.phase.phase.value,
        low=duration(least_sure.interval.low_s),
        high=duration(least_sure.interval.high_s),
        said=listed(names),
        share=least_sure.width_share,
    )


def whole_run(advice: Advice, steps: int | None, validation: "PricedValidation | None" = None) -> str:
    """The hours of a job whose steps are known, as it is and with the block; empty if it does not run.

    So are those of a run of few steps. Validations are counted where somebody says of how many rows.
    """
    together, cluster = advice.combination, advice.workload.cluster
    runs = advice.memory.is_expected_to_fit and not advice.refusals
    if steps is None or steps < _FEWEST_STEPS:
        return ""
    if advice.validates_only or advice.time.seconds <= 0 or not (runs or together):
        return ""
    validations = _validations(validation, steps)
    forms = []
    if runs:
        extra = _seconds_of_all(validations, None if validation is None else validation.time, cluster)
        forms.append(_hours(advice.step, steps, extra))
    if together is not None:
        extra = _seconds_of_all(validations, None if validation is None else validation.with_block, cluster)
        forms.append(_("{hours} with the block").format(hours=_hours(together.step, steps, extra)))
    text = (
        _("{steps} at most: {hours}; {evidence}, with {validations}, without rewards and checkpoints")
        if validations
        else _("{steps} at most: {hours}; {evidence}, without validation and checkpoints")
    ).format(
        steps=counted(steps, "step"),
        hours=listed(forms),
        evidence=rests_on(advice.step, cluster.gpu.name),
        validations=counted(validations, "validation"),
    )
    return f"{clauses([text, *assumed_lengths(advice.workload)])}."


def _seconds_of_all(number: int, time: "ValidationTime | None", cluster: Cluster) -> Ends:
    """The seconds of so many validations: the least, typical, the most."""
    if not number or time is None:
        return 0.0, 0.0, 0.0
    one = step_interval(time.time, cluster)
    return number * one.low_s, number * one.seconds, number * one.high_s


def _validations(priced: "PricedValidation | None", steps: int) -> int:
    """The validations of a job of so many steps, where somebody says of how many rows; else 0."""
    known = priced is not None and priced.time.rows_known is KnownRows.SAID
    return priced.how.validations(steps) if known and priced is not None else 0


def _hours(step: Interval, steps: int, extra: Ends) -> str:
    """So many steps, and seconds beside them: ``"7.9 h (3.9 to 14)"``."""
    ends = zip((step.low_s, step.seconds, step.high_s), extra, strict=True)
    low, middle, high = (duration((seconds * steps + more) / _SECONDS_OF_HOUR) for seconds, more in ends)
    return around(_("{hours} h").format(hours=middle), low, high)


def at_once(advice: Advice) -> str:
    """What runs at once where generation has GPUs of its own, and which of both a step waits for."""
    generation_s, training_s = (sum(phase.seconds for phase in side) for side in advice.time.sides)
    text = (
        _(
            "generation {generation} s on {apart}, training {training} s on {others}; a step waits "
            "for generation"
        )
        if generation_s > training_s
        else _(
            "generation {generation} s on {apart}, training {training} s on {others}; a step waits "
            "for training"
        )
    )
    workload = advice.workload
    return text.format(
        generation=duration(generation_s),
        apart=counted(workload.generator.gpus, "GPU"),
        training=duration(training_s),
        others=counted(workload.cluster.gpus, "GPU"),
    )


def saving_seconds(advice: Advice) -> str:
    """How long training waits for a checkpoint, what of that falls on a step; empty for a job without any."""
    saving, cluster = advice.saving, advice.workload.cluster
    if saving is None:
        return ""
    waits = phase_interval(saving.waits, cluster)
    text = _("Checkpoint: {seconds} each; {written} are written at {rate}.").format(
        seconds=seconds(waits, cluster.gpu.name), written=gib(saving.written_bytes), rate=_rate(cluster)
    )
    if saving.step_seconds is not None and saving.every_steps is not None:
        every = _("every step") if saving.every_steps == 1 else _("every {steps:,} steps")
        text = _("{text} It comes {every}, {spread} s a step on top of the step's.").format(
            text=text, every=every.format(steps=saving.every_steps), spread=duration(saving.step_seconds)
        )
    if saving.background_s:
        text = _("{text} Files take {background} s more, while training goes on.").format(
            text=text, background=duration(saving.background_s)
        )
    return text


def frequent_saving(advice: Advice) -> str:
    """What checkpoints add to a step, where a line of the block has to bring less; else empty."""
    saving, step_s = advice.saving, advice.time.seconds
    if saving is None or saving.step_seconds is None or saving.step_seconds < advice.least_gain * step_s:
        return ""
    if step_s <= 0 or advice.validates_only:
        return ""
    every = _("every step") if saving.every_steps == 1 else _("every {steps:,} steps")
    text = _(
        "Checkpoints: {written} {every}, {spread} s of waiting a step on top of {step} s, at {rate}; "
        "each stays on the disk unless a limit of those that are kept is set."
    )
    actor = advice.workload.actor.saving
    if actor is not None and actor.drops_older:
        text = _(
            "Checkpoints: {written} {every}, {spread} s of waiting a step on top of {step} s, at {rate}."
        )
    return text.format(
        written=gib(saving.written_bytes),
        every=every.format(steps=saving.every_steps),
        spread=duration(saving.step_seconds),
        step=duration(step_s),
        rate=_rate(advice.workload.cluster),
    )


def _rate(cluster: Cluster) -> str:
    rate = storage_bytes_per_s(cluster) / GIGA
    if cluster.storage_bytes_per_s is None:
        return _("{rate:,.4g} GB/s for each node (assumed; give --storage)").format(rate=rate)
    return _("{rate:,.4g} GB/s for each node").format(rate=rate)
