"""The time model: seconds per phase from datasheet rates and counted work."""

from tuner.timing.estimate import PhaseTime, StepTime, step_time

__all__ = ["PhaseTime", "StepTime", "step_time"]
