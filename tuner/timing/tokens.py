"""From batch sizes to the tokens that one GPU computes in one micro-batch."""

from math import ceil

from msgspec import Struct

from tuner.batching import in_buckets, local_sequences, micro_batch_tokens, micro_batches, pass_sequences
from tuner.timing.dealing import (
    arrival_means,
    attended_tokens,
    longest_tokens,
    slowest_mean,
    sorted_longest,
    sorted_means,
)
from tuner.workload import Backend, Batch, Padding, StepPass

_MOST_PARTS = 16  # of a step's sequences that are looked at where mini-batches differ in length


class MicroBatches(Struct, frozen=True, kw_only=True):
    """The micro-batches of one pass on the slowest GPU."""

    count: int
    tokens: float  # computed on one GPU in each of them, with the padding of unpacked sequences
    sequence_tokens: float  # length of the sequence that a token is in, over which attention runs


def micro_batches_of(batch: Batch, step_pass: StepPass) -> MicroBatches:
    """Count and size of the micro-batches of one pass.

    Packed sequences cost their mean length on the slowest rank, and attention the sum of their squares.
    Unpacked ones cost the maximum, or the length that the longest of a micro-batch, or mini-batch, is
    expected to have on the slowest rank where the engine pads to that.

    Args:
        batch: global batch sizes.
        step_pass: which pass.
    """
    engine, sequences = step_pass.engine, pass_sequences(batch, step_pass)
    slowest = _slowest_rank_mean(batch, step_pass)
    count = _count(batch, step_pass, slowest)
    length = slowest if engine.packed else _padded_tokens(batch, step_pass, count)
    tokens = sequences * length / engine.parallel.sequence_split / count
    tokens = max(tokens, in_buckets(ceil(tokens), engine)) if engine.bucket_tokens > 1 else tokens
    if step_pass.batching.fills_budget and engine.packed:
        tokens = max(tokens, step_pass.batching.token_budget)
    attended = attended_tokens(batch) if engine.packed else length
    return MicroBatches(count=count, tokens=tokens, sequence_tokens=attended)


def largest_micro_batch_tokens(batch: Batch, step_pass: StepPass, *, counts_sequences: bool = False) -> int:
    r"""Tokens on one GPU of the largest micro-batch of a step whose lengths are as expected.

    .. math:: \max_j \, t_j / \lceil t_j / B \rceil

    A budget of :math:`B` tokens is a limit, no size: a rank divides the :math:`t_j` tokens of its mini-batch
    j into as few micro-batches as hold the budget, and makes these alike. The number falls where one token
    more needs another micro-batch, so that it grows with the budget but not with the tokens. Mini-batches
    differ from step to step, and one whose tokens just fill the budget comes sooner or later: this is what a
    step has, not what a job must have room for, which is :func:`~tuner.batching.micro_batch_tokens`.
    That stands where no budget decides or padding is computed as well; it is never exceeded.

    With ``counts_sequences``, micro-batches of so many sequences have the tokens that the largest of them is
    expected to have in place of all that they must have room for: the last ones, where sequences come as
    their responses ended, those in the middle where they are sorted, and in any other order the largest of so
    many.

    verl balances by the work of attention, and whole sequences. Of lengths drawn from a log-normal spread or
    evenly, its partition had 0.99 to 1.01 times this on average where a micro-batch holds two sequences or
    more (8 to 512 sequences in 2 to 70 micro-batches).

    Source: verl 0.4.1 to 0.9.1 ``utils/seqlen_balancing.py`` (``rearrange_micro_batches``).
    """
    full = micro_batch_tokens(batch, step_pass)
    engine, sequences = step_pass.engine, pass_sequences(batch, step_pass)
    if not engine.packed:
        return full
    if not step_pass.batching.dynamic:
        if not counts_sequences:
            return full
        of_run = _largest_of_sequences(batch, step_pass) / engine.parallel.sequence_split
        return min(full, in_buckets(ceil(of_run), engine))
    slowest, split = _slowest_rank_mean(batch, step_pass), engine.parallel.sequence_split
    largest = max(
        sequences * length / _in_groups(micro_batches(batch, step_pass, sequence_tokens=length), step_pass)
        for length in _mini_batch_means(batch, step_pass, slowest)
    )
    longest = longest_tokens(batch, sequences=sequences * engine.parallel.data)
    return min(full, in_buckets(ceil(max(largest, longest) / split), engine))


def _largest_of_sequences(batch: Batch, step_pass: StepPass) -> float:
    """Tokens of the largest micro-batch of a step, each of as many sequences."""
    parallel = step_pass.engine.parallel
    many = min(step_pass.batching.micro_batch_sequences, pass_sequences(batch, step_pass))
    parts = ceil(local_sequences(batch, step_pass.engine, optimizer_step=False) / many)
    if not batch.balanced:
        mean = slowest_mean(batch, sequences=many, ranks=parts * parallel.data)
    elif batch.sorted_ranks:
        mean = sorted_means(batch, ceil(parts / 2))[-1]
    elif batch.ordered_by_arrival:
        mean = arrival_means(batch, parts)[-1]
    else:
        mean = slowest_mean(batch, sequences=many, ranks=parts * parallel.data, drawn=1 / parts)
    return many * mean


def _slowest_rank_mean(batch: Batch, step_pass: StepPass) -> float:
    """Mean length of the sequences on the rank that the others wait for.

    A trainer that balances gives all ranks as many tokens of the whole step, but a rank's mini-batches are
    cut from these as they lie: in any order, or sorted by length, or as their responses ended, in which cases
    those of all ranks are alike. Ranks wait for each other at the end of a mini-batch; under FSDP in every
    layer, so where micro-batches hold a fixed number of sequences, in each of these. A token budget evens
    them out within a rank.

    Source: verl 0.4.1 to 0.9.1 ``trainer/ppo/ray_trainer.py`` and ``trainer/ppo/v1/trainer_base.py``
    (``_balance_batch``), ``workers/actor/dp_actor.py`` (``update_policy``), ``workers/engine_workers.py``
    (``train_mini_batch``).
    """
    engine = step_pass.engine
    if batch.balanced and (batch.sorted_ranks or batch.ordered_by_arrival):
        return batch.mean_sequence_tokens
    dealt = pass_sequences(batch, step_pass)
    if not step_pass.batching.dynamic and engine.backend is not Backend.MEGATRON:
        dealt = min(dealt, step_pass.batching.micro_batch_sequences)
    drawn = dealt / local_sequences(batch, engine, optimizer_step=False) if batch.balanced else 0.0
    return slowest_mean(batch, sequences=dealt, ranks=engine.parallel.data, drawn=drawn)


def _count(batch: Batch, step_pass: StepPass, slowest: float) -> int:
    """Micro-batches of the pass; all ranks make as many as the one with the most tokens needs.

    Where mini-batches are not alike it is their mean.
    """
    lengths = _mini_batch_means(batch, step_pass, slowest)
    counts = [micro_batches(batch, step_pass, sequence_tokens=length) for length in lengths]
    mean = sum(counts) / len(counts)
    # By arrival ranks are alike in the mean only, and the one with the most tokens decides on half of one.
    return _in_groups(max(1, round(mean) if batch.sorted_ranks else int(mean + 0.5)), step_pass)


def _mini_batch_means(batch: Batch, step_pass: StepPass, slowest: float) -> tuple[float, ...]:
    """Mean lengths of the sequences of a rank's mini-batches, where a budget cuts these.

    One for all where sequences come in any order. Sorted by length a rank's sequences grow to the middle of
    the step and shrink from there. In the order in which their responses ended they grow throughout.

    Source: verl 0.6.1 to 0.8.0 ``trainer/ppo/ray_trainer.py`` (``_balance_batch``); 0.9.1
    ``trainer/ppo/v1/agent_loop_tq.py`` (``_agent_loop_postprocess`` stores each response when it is there),
    ``trainer/ppo/v1/replay_buffer.py`` (``_materialize_batch``), TransferQueue 0.1.11
    ``transfer_queue/controller.py`` (``keys_mapping``, in the order of storing).
    """
    steps = step_pass.mini_batches(batch)
    if batch.balanced and step_pass.training and step_pass.batching.dynamic:
        if batch.sorted_ranks:
            return sorted_means(batch, min(_MOST_PARTS, ceil(steps / 2)))
        if batch.ordered_by_arrival:
            return arrival_means(batch, min(_MOST_PARTS, steps))
    return (slowest,)


def _in_groups(count: int, step_pass: StepPass) -> int:
    """Micro-batches that a budget makes of so many: interleaved stages take a multiple of the stages.

    Source: verl ``utils/seqlen_balancing.py`` (``rearrange_micro_batches``: ``same_micro_num_in_dp``,
    ``num_batches_divided_by``).
    """
    parallel = step_pass.engine.parallel
    if parallel.virtual_pipeline > 1 and step_pass.batching.dynamic:
        return ceil(count / parallel.pipeline) * parallel.pipeline
    return count


def _padded_tokens(batch: Batch, step_pass: StepPass, micro_batches: int) -> float:
    """Tokens that a padded sequence is computed as, in a pass of so many micro-batches on each rank.

    To the longest: of all that the ranks run at a time, or have in the pass, since they wait for each other.
    Where ranks are sorted by length, a micro-batch of a fixed number of sequences has those of like length.
    """
    engine = step_pass.engine
    if engine.padding is Padding.MAXIMUM:
        return float(batch.sequence_tokens)
    sorted_ranks = batch.balanced and batch.sorted_ranks and not step_pass.batching.dynamic
    if sorted_ranks and engine.padding is Padding.MICRO_BATCH:
        # a rank's sequences grow to the middle of the step, and shrink from there
        of_step = local_sequences(batch, engine, optimizer_step=False)
        parts = ceil(of_step / step_pass.batching.micro_batch_sequences / 2)
        return sorted_longest(batch, min(_MOST_PARTS, parts))
    of_rank = pass_sequences(batch, step_pass)
    among = of_rank if engine.padding is Padding.MINI_BATCH else ceil(of_rank / micro_batches)
    return longest_tokens(batch, sequences=among * engine.parallel.data)
