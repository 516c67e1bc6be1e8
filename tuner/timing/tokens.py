"""From batch sizes to the tokens that one GPU computes in one micro-batch."""

from math import log, sqrt

from msgspec import Struct

from tuner.batching import micro_batches, pass_sequences
from tuner.timing import assumptions as assume
from tuner.workload import Batch, StepPass


class MicroBatches(Struct, frozen=True, kw_only=True):
    """The micro-batches of one pass on the slowest GPU."""

    count: int
    tokens: float  # computed on one GPU in each of them, with the padding of unpacked sequences
    sequence_tokens: float  # length over which attention runs


def mean_prompt_tokens(batch: Batch) -> float:
    """Mean prompt length, a stated share of the maximum."""
    return batch.max_prompt_tokens * assume.MEAN_PROMPT_SHARE


def mean_response_tokens(batch: Batch) -> float:
    """Mean response length, a stated share of the maximum."""
    return batch.max_response_tokens * assume.MEAN_RESPONSE_SHARE


def mean_sequence_tokens(batch: Batch) -> float:
    """Mean length of prompt and response together, at least 1."""
    return max(1.0, mean_prompt_tokens(batch) + mean_response_tokens(batch))


def straggler_factor(batch: Batch, *, sequences: int, ranks: int) -> float:
    """Largest over mean tokens among ranks that draw ``sequences`` each, at least 1.

    Ranks wait for each other in every collective, so the slowest sets the pace. Lengths are even
    between 0 and their maxima: the largest of D sums of k is about ``1 + c sqrt(2 ln(D) / k)`` with
    ``c = sqrt((P^2 + R^2) / 3) / (P + R)``, and never above ``D / (D + 1)`` of the maximum.
    """
    if ranks < 2:
        return 1.0
    prompt, response = batch.max_prompt_tokens, batch.max_response_tokens
    variation = sqrt((prompt**2 + response**2) / 3) / max(1, prompt + response)
    normal = 1 + variation * sqrt(2 * log(ranks) / max(1, sequences))
    longest = batch.sequence_tokens / mean_sequence_tokens(batch)
    return max(1.0, min(normal, longest * ranks / (ranks + 1)))


def micro_batches_of(batch: Batch, step_pass: StepPass) -> MicroBatches:
    """Count and size of the micro-batches of one pass.

    Packed sequences cost their mean length, unpacked ones the maximum (an engine that pads to the
    longest sequence of each micro-batch does a little better). A token budget evens out
    the tokens of all ranks; a fixed number of sequences leaves the differences between them.

    Args:
        batch: global batch sizes.
        step_pass: which pass.
    """
    mean = mean_sequence_tokens(batch)
    engine, sequences = step_pass.engine, pass_sequences(batch, step_pass)
    count = micro_batches(batch, step_pass, sequence_tokens=mean)
    length = mean if engine.packed else float(batch.sequence_tokens)
    tokens = sequences * length / engine.parallel.sequence_split / count
    if engine.packed and not step_pass.batching.dynamic:
        tokens *= straggler_factor(batch, sequences=sequences // count, ranks=engine.parallel.data)
    return MicroBatches(count=count, tokens=tokens, sequence_tokens=length)
