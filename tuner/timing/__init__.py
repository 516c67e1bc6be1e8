"""The time model: seconds per phase from datasheet rates and counted work."""

from tuner.timing.estimate import PhaseTime, StepTime, seconds_of_passes, step_time
from tuner.timing.narrowing import PROFILE, Halving, Narrowing, halving, narrowings
from tuner.timing.tokens import largest_micro_batch_tokens
from tuner.timing.uncertainty import Interval, StepChange, change, interval, phase_interval, step_interval

__all__ = [
    "PROFILE",
    "Halving",
    "Interval",
    "Narrowing",
    "PhaseTime",
    "StepChange",
    "StepTime",
    "change",
    "halving",
    "interval",
    "largest_micro_batch_tokens",
    "narrowings",
    "phase_interval",
    "seconds_of_passes",
    "step_interval",
    "step_time",
]
