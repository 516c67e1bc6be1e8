"""Reads what a job says of conversations with tools: how many turns there may be, how long answers are."""

from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Batch, Conversation
from tuner.workload.batch import MEAN_SHARE

#: What decides whether and how a job talks, the keys that turn it on first.
MEANINGS = (
    "conversation.enable",
    "conversation.tools",
    "conversation.functions",
    "conversation.interactions",
    "conversation.loop",
    "conversation.assistant_turns",
    "conversation.user_turns",
    "conversation.tool_characters",
)

#: Turns of a response where the settings have no limit and nobody says: one call of a tool, and what is made
#: of its answer.
ASSUMED_TURNS = 2

#: Characters of a token of what tools answer. Between 2.5 (numbers, JSON, code) and 4.5; 4 of English text.
CHARACTERS_PER_TOKEN = 4


def read_conversation(source: ReleaseSettings, batch: Batch) -> Conversation | None:
    """The turns of a response of a job that talks, or is said to; None where it is generated in one piece.

    Nothing says how many turns there are and how long answers, only how many and how long they may be: they
    are taken to be spread evenly up to their limits, as lengths are. A longer answer of a tool is cut at so
    many characters, and of the calls of a turn one is counted.

    Source: verl 0.9.1 ``experimental/agent_loop/tool_agent_loop.py`` (``_handle_generating_state``,
    ``_handle_processing_tools_state``, ``_call_tool``), 0.5.0 ``workers/rollout/sglang_rollout``.
    """
    mean_turns, most, answered = batch.lengths.turns, _most_turns(source), _answered(source, batch)
    turns = mean_turns
    if turns is None:
        turns = float(ASSUMED_TURNS) if most is None else (1 + most) / 2
    turns = turns if most is None else min(turns, float(most))
    tokens = batch.lengths.tool_tokens
    if turns <= 1 and mean_turns is None:
        return None
    return Conversation(
        turns=turns,
        most_turns=most,
        tool_tokens=answered if tokens is None else float(tokens),
        turns_assumed=mean_turns is None,
        tokens_assumed=tokens is None,
    )


def _most_turns(source: ReleaseSettings) -> int | None:
    """Turns that a response may have; None where nothing ends it but its length.

    The model has the last word: after so many answers it writes once more. A limit of 0 is none. A project
    with turns of its own has a key of its own for them.
    """
    program = source.settings.program
    for key in () if program is None else program.turns_keys:
        calls = source.settings.integer(key, minimum=0)
        if calls is not None:
            return calls + 1
    own = source.integer("conversation.assistant_turns", minimum=0)
    others = source.integer("conversation.user_turns", minimum=0)
    limits = [*([own] if own else []), *([others + 1] if others else [])]
    return min(limits, default=None)


def _answered(source: ReleaseSettings, batch: Batch) -> float:
    """Tokens of the answer between two turns, spread evenly up to its limit.

    That is the one of its characters, of one call, or the response's own: an answer that is beyond it ends
    the response and does not become part of it. The limit of calls in parallel is no number of them: it
    keeps a model from too many, and 512 is a way to say none.
    """
    characters = source.integer("conversation.tool_characters", default=256)
    return min(characters / CHARACTERS_PER_TOKEN, batch.max_response_tokens) * MEAN_SHARE
