"""From batch sizes to the tokens that one GPU computes in one micro-batch."""

from math import ceil, log, sqrt

from msgspec import Struct

from tuner.batching import in_buckets, local_sequences, micro_batches, pass_sequences
from tuner.workload import Batch, Padding, StepPass

_NORMAL_P95 = 1.645  # standard deviations between the mean of a normal distribution and its 95th percentile


class MicroBatches(Struct, frozen=True, kw_only=True):
    """The micro-batches of one pass on the slowest GPU."""

    count: int
    tokens: float  # computed on one GPU in each of them, with the padding of unpacked sequences
    sequence_tokens: float  # length over which attention runs


def straggler_factor(batch: Batch, *, sequences: int, ranks: int) -> float:
    """Largest over mean tokens among ranks that draw ``sequences`` each, at least 1.

    Ranks wait for each other in every collective, so the slowest sets the pace. Lengths are even around
    their means, as far as 0 and the maxima allow: the largest of D sums of k is about
    ``1 + c sqrt(2 ln(D) / k)`` with ``c = sqrt((p^2 + r^2) / 3) / m`` for prompts that lie up to p from
    their mean, responses up to r from theirs, and a mean length m of both together; it is never above
    ``D / (D + 1)`` of the maximum. Where the 95th percentile q of responses is known, ``r / sqrt(3)`` is
    ``(q - mean) / 1.645`` instead, as of a normal distribution.
    """
    if ranks < 2:
        return 1.0
    mean = batch.mean_sequence_tokens
    variation = sqrt(batch.prompt_spread**2 / 3 + _response_deviation(batch) ** 2) / mean
    normal = 1 + variation * sqrt(2 * log(ranks) / max(1, sequences))
    longest = batch.sequence_tokens / mean
    return max(1.0, min(normal, longest * ranks / (ranks + 1)))


def _response_deviation(batch: Batch) -> float:
    """Standard deviation of response lengths."""
    if batch.lengths.response_p95 is None:
        return batch.response_spread / sqrt(3)
    return max(0.0, batch.response_p95_tokens - batch.mean_response_tokens) / _NORMAL_P95


def micro_batches_of(batch: Batch, step_pass: StepPass) -> MicroBatches:
    """Count and size of the micro-batches of one pass.

    Packed sequences cost their mean length, unpacked ones the maximum, or the length that the longest of a
    micro-batch, or mini-batch, is expected to have on the slowest rank where the engine pads to that. A
    token budget evens out the tokens of all ranks where the trainer balances them; a fixed number of
    sequences leaves the differences between micro-batches, and no balancing those between whole ranks.

    Args:
        batch: global batch sizes.
        step_pass: which pass.
    """
    mean = batch.mean_sequence_tokens
    engine, sequences = step_pass.engine, pass_sequences(batch, step_pass)
    count = micro_batches(batch, step_pass, sequence_tokens=mean)
    length = mean if engine.packed else _padded_tokens(batch, step_pass, count)
    tokens = sequences * length / engine.parallel.sequence_split / count
    uneven = _uneven_sequences(batch, step_pass, sequences // count)
    if engine.packed and uneven is not None:
        tokens *= straggler_factor(batch, sequences=uneven, ranks=engine.parallel.data)
    tokens = max(tokens, in_buckets(ceil(tokens), engine)) if engine.bucket_tokens > 1 else tokens
    return MicroBatches(count=count, tokens=tokens, sequence_tokens=length)


def _padded_tokens(batch: Batch, step_pass: StepPass, micro_batches: int) -> float:
    """Tokens that a padded sequence is computed as, in a pass of so many micro-batches on each rank.

    To the longest: of all that the ranks run at a time, or have in the pass, since they wait for each other,
    and no longer than evenly spread lengths reach where nothing is known of the tail.
    """
    longest, engine = float(batch.sequence_tokens), step_pass.engine
    if engine.padding is Padding.MAXIMUM:
        return longest
    of_rank = pass_sequences(batch, step_pass)
    among = of_rank if engine.padding is Padding.MINI_BATCH else ceil(of_rank / micro_batches)
    mean, together = batch.mean_sequence_tokens, among * engine.parallel.data
    if batch.lengths.response_p95 is None:
        longest = min(longest, mean + batch.prompt_spread + batch.response_spread)
    return min(longest, mean * straggler_factor(batch, sequences=1, ranks=together))


def _uneven_sequences(batch: Batch, step_pass: StepPass, micro_batch: int) -> int | None:
    """Sequences over which the tokens of ranks differ as they come, None where a trainer evens them out.

    Ranks that nobody balances are taken to differ over all sequences of the step: a trainer balances
    those, not each mini-batch.
    """
    if not step_pass.batching.dynamic:
        return micro_batch
    if batch.balanced:
        return None
    return local_sequences(batch, step_pass.engine, optimizer_step=False)
