r"""Turns of a conversation with tools, between which a sequence leaves the engine and comes back.

The model writes, tools answer, the model writes on. Each turn is a request of its own, with all that was said
before as its prompt. While tools work the sequence is no part of the engine: its place is free, and others
run in it. Its blocks stay where they are until they are given to others, those that were freed first before
all others. Back again it waits behind all that wait. With prefix caching it computes what the tools answered,
the tokens of its last block that do not fill it, and those whose blocks were taken meanwhile; without, its
whole conversation. Where the cache is full of others, little is left of it.

Calls of tools lie evenly in all that is written, so that a response of r tokens has

.. math:: k_r = 1 + (k - 1) \frac{r}{\bar r}

turns where the mean is k. Between two of them lie the seconds of the tools and those of the process that
holds the conversation. It is one of a few, which the engines share, and works for one sequence after the
other. Seconds in which no sequence is in the engine stand beside those of its steps.

Source: verl 0.9.1 ``experimental/agent_loop/tool_agent_loop.py``, ``workers/rollout/router.py`` (a
conversation stays with its engine), vLLM ``v1/core/block_pool.py`` (``free_blocks``, ``get_new_blocks``),
``v1/core/kv_cache_manager.py`` (``get_computed_blocks``: whole blocks, and never the last token).
"""

from collections.abc import Iterator, Sequence
from math import floor

from tuner.timing.generation.load import CutResponse

#: Turns of a response that are simulated one by one. Where it has more, each stands for several of them.
_TOLD_APART = 5


def cut_responses(
    responses: Sequence[tuple[int, int]], *, mean: float, most: int | None, tool_tokens: float
) -> tuple[CutResponse, ...]:
    """The turns of each response, as many more in longer ones as there is more to write.

    Args:
        responses: so many sequences, each with a response of so many tokens.
        mean: turns of a sequence.
        most: that one may have; None: any number.
        tool_tokens: that come back between two turns.
    """
    return tuple(
        cut_response(length, number, tool_tokens)
        for (_count, length), number in zip(responses, _numbers(responses, mean, most), strict=True)
    )


def _numbers(responses: Sequence[tuple[int, int]], mean: float, most: int | None) -> Iterator[float]:
    sequences = sum(count for count, _ in responses)
    average = sum(count * length for count, length in responses) / sequences
    for _count, length in responses:
        number = 1 + (mean - 1) * length / average
        yield number if most is None else min(number, float(most))


def cut_response(length: int, number: float, tool_tokens: float) -> CutResponse:
    """A response of so many tokens in so many turns, in each of which a token is written at least.

    A number with a fraction is a mean: the ends of turns stand for as many calls of tools.
    """
    number = min(number, float(length))
    whole = 1 if number <= 1 else max(2, floor(number + 0.5))
    turns = min(_TOLD_APART, whole, length)
    if turns == 1:
        return CutResponse(written=length, turns=1, stands_for=0.0, tool_tokens=0)
    calls = (number - 1) / (turns - 1)
    answered = min(round(tool_tokens * calls), (length - turns) // (turns - 1))
    written = length - (turns - 1) * answered
    return CutResponse(written=written, turns=turns, stands_for=calls, tool_tokens=answered)
