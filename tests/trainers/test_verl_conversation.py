"""What a release's settings say of conversations with tools."""

import pytest

from tests.trainers.launches import DYNAMIC, ROLLOUT, VERSIONS, since, workload_of
from tuner.versions import at_least
from tuner.workload import Conversation

TALKS = f"{ROLLOUT}.multi_turn"


def conversation(version: str, *overrides: str) -> Conversation | None:
    return workload_of((*DYNAMIC, *overrides), version).batch.conversation


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_is_one_piece_unless_turns_are_asked_for(version: str) -> None:
    assert conversation(version) is None
    if at_least(version, "0.4.0"):
        found = conversation(version, f"{TALKS}.enable=True")
        assert found == Conversation(
            turns=2, most_turns=None, tool_tokens=32, turns_assumed=True, tokens_assumed=True
        )


@pytest.mark.parametrize("version", since("0.5.0"))
def test_tools_ask_for_turns_as_well(version: str) -> None:
    assert conversation(version, f"{TALKS}.tool_config_path=tools.yaml") is not None
    loop = conversation(version, f"+{ROLLOUT}.agent.default_agent_loop=tool_agent")
    assert (loop is not None) is at_least(version, "0.6.0")


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ((), None),
        (("max_assistant_turns=5",), 5),
        (("max_user_turns=5",), 6),  # the model has the last word
        (("max_assistant_turns=5", "max_user_turns=2"), 3),
        (("max_assistant_turns=0",), None),
    ],
)
def test_limits_of_both_sides_bound_the_turns(limits: tuple[str, ...], most: int | None) -> None:
    found = conversation("0.9.1", f"{TALKS}.enable=True", *(f"{TALKS}.{limit}" for limit in limits))
    assert found is not None
    assert found.most_turns == most
    assert found.turns == (2 if most is None else (1 + most) / 2)


def test_one_turn_at_most_is_one_piece() -> None:
    assert conversation("0.9.1", f"{TALKS}.enable=True", f"{TALKS}.max_assistant_turns=1") is None


def test_answers_are_as_long_as_characters_and_the_response_allow_by_half() -> None:
    """verl 0.9.1 experimental/agent_loop/tool_agent_loop.py: an answer beyond the response ends it."""
    long = conversation("0.9.1", f"{TALKS}.enable=True", f"{TALKS}.max_tool_response_length=4096")
    any_number = conversation("0.9.1", f"{TALKS}.enable=True", f"{TALKS}.max_parallel_calls=512")
    beyond = conversation(
        "0.9.1",
        f"{TALKS}.enable=True",
        f"{TALKS}.max_tool_response_length=65536",
        "data.max_response_length=2048",
    )
    assert long is not None and any_number is not None and beyond is not None
    assert (long.tool_tokens, any_number.tool_tokens, beyond.tool_tokens) == (512, 32, 1024)


def test_the_release_that_named_one_limit_is_read_by_it() -> None:
    found = conversation("0.4.0", f"{TALKS}.enable=True", f"{TALKS}.max_turns=4")
    assert found is not None and found.most_turns == 4
