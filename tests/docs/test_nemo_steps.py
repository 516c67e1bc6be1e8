"""Step times that NeMo-RL publishes: which of two recipes of a model is faster, and how far they are told."""

from itertools import combinations

from nemo_steps import modelled, published_steps


def test_more_cards_are_told_to_be_faster_as_they_are() -> None:
    """Of recipes that differ in the number of cards alone, trained and generated in turns on H100."""
    of_h100 = [one for one in published_steps() if one["gpu"] == "h100-sxm" and "off" not in one["recipe"]]
    pairs = [
        (one, other)
        for one, other in combinations(of_h100, 2)
        if one["settings"]["policy.model_name"] == other["settings"]["policy.model_name"]
    ]
    assert len(pairs) == 2
    for one, other in pairs:
        faster = modelled(one["recipe"]).seconds > modelled(other["recipe"]).seconds
        assert faster is (one["seconds"] > other["seconds"])


def test_a_modelled_step_lies_in_its_interval() -> None:
    step = modelled("grpo-qwen3-30ba3b-4n8g")
    assert step.low < step.seconds < step.high
