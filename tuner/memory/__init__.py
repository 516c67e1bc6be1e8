"""The memory model: bytes per GPU, phase and term."""

from tuner.memory.engine_memory import RolloutMemory, rollout_memory
from tuner.memory.estimate import StepMemory, estimate
from tuner.memory.lengths import mean_tokens_that_fit
from tuner.memory.terms import Estimate, Item, Moment, PhaseEstimate, Term

__all__ = [
    "Estimate",
    "Item",
    "Moment",
    "PhaseEstimate",
    "RolloutMemory",
    "StepMemory",
    "Term",
    "estimate",
    "mean_tokens_that_fit",
    "rollout_memory",
]
