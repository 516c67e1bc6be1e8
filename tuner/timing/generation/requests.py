"""What an engine is asked for: responses, those that lost their room, and further turns of conversations."""

from tuner.timing.generation.load import Load, Waiting
from tuner.timing.generation.running import SequenceGroup


def first_request(load: Load, place: int) -> Waiting:
    """The sequences of a response as they come first."""
    turns, (count, tokens) = load.turns, load.responses[place]
    return Waiting(
        count=count,
        place=place,
        length=tokens if turns is None else turns.cuts[place].after(0),
        new=load.new_prompt,
    )


def preempted_request(
    load: Load, group: SequenceGroup, count: int, *, generated: int, mark: float
) -> Waiting:
    """Sequences that lost their room in the middle of a turn.

    Args:
        load: of the engine.
        group: which of them.
        count: how many.
        generated: tokens of each response that are there.
        mark: tokens given out by the cache up to which none of their blocks is taken.
    """
    return Waiting(
        count=count,
        place=group.place,
        length=group.length,
        new=load.new_prompt,
        turn=group.turn,
        generated=generated,
        kept=float(generated),
        mark=mark,
    )


def next_request(load: Load, group: SequenceGroup, *, mark: float) -> Waiting | None:
    """The next turn of sequences that have ended one, None behind the last; ``mark`` as above."""
    turns, turn = load.turns, group.turn + 1
    if turns is None or turn == turns.cuts[group.place].turns:
        return None
    cut = turns.cuts[group.place]
    there = cut.before(turn)
    block = turns.block_tokens / 2 * cut.stands_for
    cached = load.keeps_blocks
    return Waiting(
        count=group.count,
        place=group.place,
        length=cut.after(turn),
        new=cut.tool_tokens + (block if cached else 0.0),
        turn=turn,
        calls=cut.stands_for,
        generated=there,
        kept=there - cut.tool_tokens + (load.new_prompt if cached else turns.prompt_tokens),
        mark=mark,
    )


def lost_tokens(load: Load, head: Waiting, handed_out_tokens: float) -> float:
    """Tokens of a sequence that was there before which have to be computed again.

    Args:
        load: of the engine.
        head: the sequence.
        handed_out_tokens: tokens given out by the cache so far.
    """
    if not load.keeps_blocks:
        return head.calls * head.kept
    tokens_since = handed_out_tokens - head.mark
    return head.calls * max(0.0, tokens_since if tokens_since < head.kept else head.kept)


def tokens_before(load: Load, head: Waiting, new: float) -> float:
    """Tokens before the ``new`` ones of a turn, beyond those that a first prompt's have before them."""
    turns = load.turns
    if turns is None or not head.turn:
        return 0.0
    at_once = new / max(1.0, head.calls)
    return max(0.0, turns.prompt_tokens + head.generated - at_once + (at_once - turns.prompt_tokens) / 2)
