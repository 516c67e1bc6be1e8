"""What fills up a batch that is no multiple of its mini-batches, and how much of it there is."""

import pytest

from tests.tables import HEADROOM, bases, scene
from tuner.rules.batching import padding_sequences
from tuner.rules.case import Case

#: 160 prompts with 8 responses each, in mini-batches of 128 prompts: 1,280 sequences where 2,048 are needed.
UNEVEN = ("data.train_batch_size=160", "actor_rollout_ref.actor.ppo_mini_batch_size=128")
CRITIC = ("algorithm.adv_estimator=gae", "critic.model.path=Qwen/Qwen2.5-7B-Instruct")


@pytest.mark.parametrize(
    ("overrides", "padding"),
    [
        ((), 768),
        ((*CRITIC, "critic.ppo_mini_batch_size=160"), 3840),  # to the 5,120 that 1,024 and 1,280 divide
        ((*CRITIC, "critic.ppo_mini_batch_size=64"), 768),
    ],
)
def test_padding_goes_to_a_multiple_of_all_mini_batches(overrides: tuple[str, ...], padding: int) -> None:
    workload = scene(bases()["grpo-0.9.1"], [*UNEVEN, *overrides]).workload
    finding = padding_sequences.check(Case.of(workload, headroom=HEADROOM))
    assert finding is not None
    assert f"{padding:,} sequences of padding" in finding.message
    assert "unequal numbers of responses" in finding.message
