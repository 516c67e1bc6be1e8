"""From batch settings to the tokens and micro-batches that one GPU sees."""

from functools import lru_cache
from math import ceil, isqrt

from msgspec.structs import replace

from tuner.workload import Attention, Batch, Engine, Padding, StepPass

#: The shortest sequence that there can be: a token of the prompt and one of the response.
SHORTEST_SEQUENCE = 2


def divisors(number: int) -> list[int]:
    """The divisors of a positive number, ascending."""
    small = [size for size in range(1, isqrt(number) + 1) if number % size == 0]
    return small + [number // size for size in reversed(small) if size * size != number]


def local_sequences(batch: Batch, engine: Engine, *, optimizer_step: bool) -> int:
    """Sequences that one data-parallel rank handles in a pass, at least 1.

    A rank's share of a mini-batch is rounded down, as verl's workers do.

    Args:
        batch: global batch sizes.
        engine: whose data-parallel ranks share the sequences.
        optimizer_step: True for one mini-batch, False for all sequences of the step.
    """
    ranks = engine.parallel.data
    return max(1, batch.mini_batch_sequences // ranks if optimizer_step else ceil(batch.sequences / ranks))


def pass_sequences(batch: Batch, step_pass: StepPass) -> int:
    """Sequences of one data-parallel rank in a pass: of a mini-batch where it trains, else of the step."""
    if step_pass.training:
        return step_pass.rank_mini_batch_sequences(batch)
    return local_sequences(batch, step_pass.engine, optimizer_step=False)


def attending_engine(batch: Batch, step_pass: StepPass) -> Engine:
    """The engine of a pass, without masks of packed rows where each of those is likely one sequence."""
    engine = step_pass.engine
    if not (engine.bare_single_rows and engine.packed and engine.attention is Attention.MASKED_ROWS):
        return engine
    sequences = pass_sequences(batch, step_pass)
    if micro_batches(batch, step_pass, sequence_tokens=batch.mean_sequence_tokens) < sequences:
        return engine
    return replace(engine, attention=Attention.CAUSAL_ROWS)


def micro_batch_tokens(batch: Batch, step_pass: StepPass) -> int:
    """Tokens that one GPU computes in its largest micro-batch, every sequence at its maximum length.

    Dynamic: the token budget (more where a release does not hold it, see :func:`overshoot`, and where a mean
    length is known ``_overshoot_of_mean``), never less than one whole sequence and never more than all
    local tokens; more where padding is computed as well, see :func:`padded_sequences`. Static: the sequences
    of one micro-batch at full length; packing does not help the longest case.
    """
    if not _pads_a_budget(step_pass):
        return in_buckets(_held_tokens(batch, step_pass, worst=False), step_pass.engine)
    held = _held_tokens(batch, step_pass)
    sequences, mean = pass_sequences(batch, step_pass), batch.mean_sequence_tokens
    many = ceil(sequences / micro_batches(batch, step_pass, sequence_tokens=mean))
    if step_pass.engine.padding is Padding.MICRO_BATCH:  # the longest leaves room for fewer
        many = min(many, padded_sequences(batch, step_pass, length=mean))
    return max(held, _padded_tokens(batch, step_pass, many))


def most_micro_batch_tokens(batch: Batch, step_pass: StepPass) -> int:
    """The tokens that one GPU computes in a micro-batch of the shorter half of its sequences.

    Of a release that does not hold its budget those of the worst lengths, see :func:`overshoot`. More than
    :func:`micro_batch_tokens` as well where a token budget counts real tokens of sequences that are padded:
    the shorter they are, the more of them share a micro-batch. Lengths that are spread evenly have a
    shorter half whose mean is half of the spread below theirs. Micro-batches are balanced by tokens, so that
    each gets long and short ones: of lengths spread from nothing to twice the mean, verl's own partition puts
    at most half as many again as of the mean length into one (32 to 512 sequences in 2 to 128 micro-batches).

    Source: verl 0.7.1 ``utils/seqlen_balancing.py`` (``karmarkar_karp``).
    """
    if not _pads_a_budget(step_pass):
        return in_buckets(_held_tokens(batch, step_pass), step_pass.engine)
    typical = micro_batch_tokens(batch, step_pass)
    shorter = batch.mean_sequence_tokens - (batch.prompt_spread + batch.response_spread) / 2
    many = padded_sequences(batch, step_pass, length=max(SHORTEST_SEQUENCE, shorter))
    return max(typical, _padded_tokens(batch, step_pass, many))


def micro_batch_tokens_bound(batch: Batch, step_pass: StepPass) -> int:
    """The most tokens that one GPU may compute in a micro-batch, whatever the lengths of sequences are.

    More than :func:`most_micro_batch_tokens` where a token budget counts no padding: sequences of
    ``SHORTEST_SEQUENCE`` tokens fill it by the thousand.
    """
    most = most_micro_batch_tokens(batch, step_pass)
    if not _pads_a_budget(step_pass):
        return most
    many = padded_sequences(batch, step_pass, length=SHORTEST_SEQUENCE)
    return max(most, _padded_tokens(batch, step_pass, many))


def in_buckets(tokens: int, engine: Engine) -> int:
    """The tokens of a GPU where a packed micro-batch is padded up to a multiple of a bucket.

    Source: verl 0.9.0 ``workers/engine/fsdp/transformer_impl.py`` (``_get_packed_pad_size``),
    ``models/mcore/util.py`` (``pad_to_length_bucket``).
    """
    bucket, split = engine.bucket_tokens, engine.parallel.sequence_split
    if bucket == 1 or not engine.packed:
        return tokens
    return ceil(ceil(tokens * split / bucket) * bucket / split)


def padded_sequences(batch: Batch, step_pass: StepPass, *, length: float) -> int:
    r"""The most sequences of a micro-batch whose budget counts real tokens, while padding is computed.

    A budget of :math:`B` tokens holds :math:`B / l` sequences of length :math:`l`, each of which is
    computed as :math:`L` tokens: the maximum, or the longest sequence of the mini-batch where the engine
    pads to that. Where it pads to the longest of the micro-batch, one of them has :math:`L` tokens, and
    :math:`(B - L) / l` others share what it leaves. There are never more than a rank has.

    Args:
        batch: global batch sizes.
        step_pass: which pass.
        length: of the sequences that are not the longest, in tokens.

    Source: verl 0.3.0.post1 to 0.9.1 ``utils/seqlen_balancing.py`` (``rearrange_micro_batches``:
    ``attention_mask.sum``, ``offsets().diff()``); 0.7.1 ``workers/actor/dp_actor.py``, 0.9.1
    ``workers/engine/fsdp/transformer_impl.py`` (``prepare_model_inputs``).
    """
    filled = _filled_tokens(batch, step_pass) * step_pass.engine.parallel.sequence_split
    many = filled // length
    if step_pass.engine.padding is Padding.MICRO_BATCH:
        many = 1 + (filled - batch.reached_tokens) // length
    return min(pass_sequences(batch, step_pass), max(1, int(many)))


def _pads_a_budget(step_pass: StepPass) -> bool:
    return step_pass.batching.dynamic and not step_pass.engine.packed


def _padded_tokens(batch: Batch, step_pass: StepPass, sequences: int) -> int:
    """Tokens on one GPU of sequences that are padded to the longest possible."""
    engine = step_pass.engine
    return ceil(sequences * _width(batch, engine) / engine.parallel.sequence_split)


def _width(batch: Batch, engine: Engine) -> int:
    """Tokens that the longest sequence is computed as: padding may go beyond what is generated."""
    to_maximum = not engine.packed and engine.padding is Padding.MAXIMUM
    return batch.sequence_tokens if to_maximum else batch.reached_tokens


def _held_tokens(batch: Batch, step_pass: StepPass, *, worst: bool = True) -> int:
    """Real tokens of the largest micro-batch on one GPU, of the worst lengths or of those that are known."""
    split = step_pass.engine.parallel.sequence_split
    sequences = pass_sequences(batch, step_pass)
    batching = step_pass.batching
    if not batching.dynamic:
        width = _width(batch, step_pass.engine)
        return ceil(min(batching.micro_batch_sequences, sequences) * width / split)
    return min(_filled_tokens(batch, step_pass, worst=worst), ceil(sequences * batch.reached_tokens / split))


def _filled_tokens(batch: Batch, step_pass: StepPass, *, worst: bool = True) -> int:
    """The budget as far as a release fills it, at least one whole sequence."""
    split, batching = step_pass.engine.parallel.sequence_split, step_pass.batching
    budget = max(batching.token_budget, ceil(batch.reached_tokens / split))
    if batching.hard_limit:
        return budget
    sequences, mean = pass_sequences(batch, step_pass), batch.known_mean_tokens
    most = overshoot(budget * split, batch.reached_tokens, sequences)
    if not worst and mean is not None:
        most = min(most, _overshoot_of_mean(budget * split, mean, sequences))
    return int(budget * most)


def step_tokens(batch: Batch, engine: Engine) -> int:
    """Tokens of one optimizer step on one GPU, every sequence at its maximum length."""
    sequences = local_sequences(batch, engine, optimizer_step=True)
    return ceil(sequences * _width(batch, engine) / engine.parallel.sequence_split)


def overshoot(budget: int, longest: int, sequences: int) -> float:
    r"""Largest micro-batch over the budget, for releases that only derive a count from it.

    Such releases make :math:`k = \lceil t / B \rceil` micro-batches of :math:`t` tokens and a budget of
    :math:`B`, and balance whole sequences between them, so that :math:`m` equally long sequences put
    :math:`\lceil m / k \rceil` into the fullest. The worst length below the longest one that still
    gives :math:`k` is :math:`l = \min(L, k B / m)`; the factor is the worst
    :math:`\lceil m / k \rceil \, l / B` over all :math:`m` and :math:`k`, reached with one sequence
    more than :math:`k` full micro-batches hold.

    Args:
        budget: tokens of a micro-batch over the ranks that share a sequence, :math:`B`.
        longest: tokens of the longest sequence, :math:`L`.
        sequences: sequences of one data-parallel rank in the pass.

    Source: verl up to 0.9.0, ``utils/seqlen_balancing.py``, ``rearrange_micro_batches``.
    """
    worst = 1.0
    for fullest in {budget // longest + 1, ceil(budget / longest) + 1}:
        micro_batches = (sequences - 1) // (fullest - 1) if fullest > 1 else 0
        if micro_batches:
            longer = (fullest - 1) * micro_batches + 1
            length = min(longest, micro_batches * budget / longer)
            worst = max(worst, fullest * length / budget)
    return worst


def _overshoot_of_mean(budget: int, mean: float, sequences: int) -> float:
    r"""Largest micro-batch over the budget where sequences are as long as they are known to be in the mean.

    Sequences of :math:`l` tokens make :math:`k = \lceil m l / B \rceil` micro-batches, of which the fullest
    has :math:`\lceil m / k \rceil` of them: :math:`\max(1, \lceil m / k \rceil \, l / B)`, since some batch
    fills its budget. Of 16 and 64 sequences whose lengths are spread evenly around a quarter to four fifths
    of the longest, partitioned by the work of attention as verl does, the fullest micro-batch had in the
    median 0.7 to 1.06 times this, and at most 1.26 times, where the budget is one longest sequence.

    Args:
        budget: tokens of a micro-batch over the ranks that share a sequence, :math:`B`.
        mean: tokens of a sequence, :math:`l`.
        sequences: sequences of one data-parallel rank in the pass, :math:`m`.

    Source: verl up to 0.9.0, ``utils/seqlen_balancing.py`` (``rearrange_micro_batches``: ``ceildiv(
    total_seqlen, max_token_len)``, ``get_seqlen_balanced_partitions``).
    """
    made = min(sequences, max(1, ceil(sequences * mean / budget)))
    return max(1.0, ceil(sequences / made) * mean / budget)


def micro_batches(batch: Batch, step_pass: StepPass, *, sequence_tokens: float | None = None) -> int:
    """Micro-batches of one pass on one GPU: of a mini-batch where it trains, else of the whole step.

    Args:
        batch: global batch sizes.
        step_pass: which pass.
        sequence_tokens: mean length to count with; None counts with the maximum.
    """
    sequences = pass_sequences(batch, step_pass)
    batching = step_pass.batching
    if not batching.dynamic:
        return ceil(sequences / max(1, batching.micro_batch_sequences))
    mean = batch.reached_tokens if sequence_tokens is None else sequence_tokens
    split = step_pass.engine.parallel.sequence_split
    if batching.packs_whole:
        spread = 0.0 if sequence_tokens is None else batch.prompt_spread + batch.response_spread
        longest = min(mean + spread, batch.reached_tokens)
        return _bins(sequences, max(1.0, 2 * mean - longest), longest, batching.token_budget * split)
    tokens = sequences * mean / split
    return min(sequences, max(1, ceil(tokens / max(1, batching.token_budget))))


_PACKED = 64  # sequences that stand for any number of them


@lru_cache(maxsize=1024)
def _bins(sequences: int, shortest: float, longest: float, budget: int) -> int:
    """Micro-batches that whole sequences fill, each put where it fits first, the longest before the others.

    Of lengths that are spread evenly; one that is longer than the budget has a micro-batch of its own.

    Source: NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/data/packing/algorithms.py`` (``FirstFitDecreasingPacker``).
    """
    many = min(sequences, _PACKED)
    step = (longest - shortest) / many
    room: list[float] = []
    for place in range(many):
        length = longest - (place + 0.5) * step
        fitting = next((at for at, left in enumerate(room) if left >= length), None)
        if fitting is None:
            room.append(budget - length)
        else:
            room[fitting] -= length
    return min(sequences, ceil(len(room) * sequences / many))


def micro_batch_patches(batch: Batch, step_pass: StepPass) -> tuple[int, int, int]:
    """Patches that the vision tower of one GPU sees in a micro-batch: the least, the expected, the most.

    A static micro-batch has as many sequences as it says. A token budget is filled with sequences of their
    mean length, with the longest at least, and at most with nothing but tokens of images, whatever the number
    of sequences is that they are from. Ranks that share a sequence each run the tower over all of its images.
    Zero where no image reaches a tower that is known.

    Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``prepare_model_inputs``: inputs are
    sliced behind the embedding where the model has a vision tower).
    """
    images, tower = batch.images, step_pass.model.tower
    if images is None or tower is None:
        return 0, 0, 0
    least, expected, most = (
        min(tokens, batch.max_prompt_tokens)
        for tokens in (images.least_tokens, images.tokens, images.most_tokens)
    )
    local, batching = pass_sequences(batch, step_pass), step_pass.batching
    square = tower.patches_per_token
    if not batching.dynamic:
        sequences = min(batching.micro_batch_sequences, local)
        return square * sequences * least, square * sequences * expected, square * sequences * most
    tokens = micro_batch_tokens(batch, step_pass) * step_pass.engine.parallel.sequence_split
    mean = max(batch.mean_prompt_tokens, expected) + batch.mean_response_tokens
    fewest, usual = (min(local, max(1, int(tokens // length))) for length in (batch.reached_tokens, mean))
    return square * fewest * least, square * usual * expected, square * min(local * most, tokens)
