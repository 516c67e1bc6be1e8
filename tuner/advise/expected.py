"""What the passes of a step take with the micro-batches that lengths as expected make of a budget of tokens.

A job is judged with full micro-batches, because one batch whose tokens just fill the budget is enough to run
out of memory, and over many steps there is one. What a step is seen to take is less.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from tuner.batching import micro_batch_tokens
from tuner.memory import PhaseEstimate, StepMemory, with_blocks_before
from tuner.timing import largest_micro_batch_tokens
from tuner.workload import Phase, StepPass, Workload


class ExpectedPass(Struct, frozen=True, kw_only=True):
    """A pass of which no micro-batch is expected to be full."""

    estimate: PhaseEstimate
    tokens: int  # of the largest micro-batch on one GPU
    full_tokens: int  # that it must have room for
    full_bytes: int  # of the card, with so many
    kept_bytes: int  # of freed blocks that PyTorch may hold at most, with no more tokens


def expected_passes(workload: Workload, *, counts_sequences: bool = False) -> dict[Phase, ExpectedPass]:
    """The passes whose largest micro-batch is expected to be smaller than a full one.

    Each begins with the blocks that the one before it has left, with a micro-batch as expected as well.

    Args:
        workload: the job.
        counts_sequences: whether micro-batches of a number of sequences have tokens as expected too, as those
            of a run had; a job must have room for their maxima.
    """
    if workload.unmodelled_engine:
        return {}
    passes = {one.phase: one for one in workload.passes()}
    memory = StepMemory(workload)
    expected = _smaller(workload, memory, passes.values(), counts_sequences=counts_sequences)
    return _behind(expected, memory, passes) if expected else {}


def _smaller(
    workload: Workload, memory: StepMemory, passes: Iterable[StepPass], *, counts_sequences: bool
) -> dict[Phase, ExpectedPass]:
    batch, expected = workload.batch, {}
    for one in passes:
        tokens, full = (
            largest_micro_batch_tokens(batch, one, counts_sequences=counts_sequences),
            micro_batch_tokens(batch, one),
        )
        judged = memory.phase(one.phase) if tokens < full else None
        if judged is not None:
            expected[one.phase] = ExpectedPass(
                estimate=memory.with_micro_batch(one.phase, tokens),
                tokens=tokens,
                full_tokens=full,
                full_bytes=judged.peak_bytes,
                kept_bytes=memory.kept_with_micro_batch(one.phase, tokens),
            )
    return expected


def _behind(
    expected: Mapping[Phase, ExpectedPass], memory: StepMemory, passes: Mapping[Phase, StepPass]
) -> dict[Phase, ExpectedPass]:
    made = (expected[phase].estimate if phase in expected else memory.phase(phase) for phase in passes)
    phases = (phase for phase in made if phase is not None)
    behind = {phase.phase: phase for phase in with_blocks_before(phases, passes)}
    return {phase: replace(one, estimate=behind[phase]) for phase, one in expected.items()}


def peak_as_expected(workload: Workload) -> int | None:
    """Bytes of the worst phase where micro-batches are as expected; None where all are full ones."""
    passes = expected_passes(workload)
    if not passes:
        return None
    phases = StepMemory(workload).phases()
    peaks = (passes[phase.phase].estimate if phase.phase in passes else phase for phase in phases)
    return max(phase.peak_bytes for phase in peaks)
