"""Equal rewards and the advantages that verl computes of them, in float32 as it does."""

import pytest
import torch

from tests.cli.runner import run

EPSILON = 1e-6


def advantages(rewards: list[float], *, divided: bool = True) -> torch.Tensor:
    """Of one group: verl 0.9.1 ``trainer/ppo/core_algos.py`` (``compute_grpo_outcome_advantage``)."""
    scores = torch.stack([torch.tensor(reward) for reward in rewards])
    centred = scores - torch.mean(scores)
    return centred / (torch.std(scores) + EPSILON) if divided else centred


@pytest.mark.parametrize("reward", [0.0, 1.0, -1.0, 0.5, 0.25])
@pytest.mark.parametrize("responses", [2, 3, 5, 8, 16, 64])
def test_equal_rewards_that_float32_adds_up_exactly_have_no_advantage(reward: float, responses: int) -> None:
    assert not advantages([reward] * responses).any()


def test_other_equal_rewards_leave_some_hundredths() -> None:
    """An ulp of 0.9, divided by a deviation of as much and the epsilon."""
    left = advantages([0.9] * 8).abs()
    assert (left == left[0]).all()
    assert 0.01 < left[0] < 0.1
    alone = advantages([0.9] * 8, divided=False).abs()
    assert 0 < alone.max() < EPSILON


def test_the_advice_says_so() -> None:
    told = run(
        *("advise", "docs/examples/qwen2.5-7b-grpo.yaml", "--gpu", "h100-sxm", "--full"),
        *("--zero-advantage-ratio", "0.5", "--", "trainer.n_gpus_per_node=8"),
        "actor_rollout_ref.actor.use_kl_loss=False",
    )
    assert "equal rewards such as 0.9" in " ".join(told.out.split())
