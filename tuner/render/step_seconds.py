"""The seconds of a step and its phases in words, with their intervals and what they rest on."""

from tuner.advise import Advice
from tuner.language import _
from tuner.render.lengths import assumed_lengths
from tuner.render.numbers import phase_seconds, seconds
from tuner.render.words import clauses, listed
from tuner.timing import phase_interval

_LEAST = 0.005  # of the step; a shorter phase is not named


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
    return _("Step time: {step}. It is the sum of its phases, in seconds: {phases}.").format(
        step=step, phases=phases
    )
