"""The memory model: bytes per GPU, phase and term."""

from tuner.memory.estimate import StepMemory, estimate
from tuner.memory.fitting.lengths import mean_tokens_that_fit
from tuner.memory.ledger.terms import Estimate, Item, Moment, PhaseEstimate, Term
from tuner.memory.process.freed_blocks import with_blocks_before
from tuner.memory.rollout.capacity import RolloutMemory, rollout_memory

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
    "with_blocks_before",
]
