"""Sequences without an advantage left out: the same gradient on all ranks, however the loss is divided."""

from typing import Any

import pytest
import torch

from tuner.errors import TunerError
from tuner.zero_advantage import AGGREGATIONS, MODES, Skip, skip_zero_advantage

WIDTH, FEATURES = 5, 4


def batch(seed: int, sequences: int, zero_share: float) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(sequences, WIDTH, generator=generator) < 0.7
    mask[seed % sequences] = False  # a sequence with no token in the loss
    advantages = torch.randn(sequences, 1, generator=generator).expand(-1, WIDTH).clone()
    advantages[torch.rand(sequences, generator=generator) < zero_share] = 0
    advantages[~mask] = torch.nan  # whatever stands where the mask is 0
    return {
        "advantages": advantages,
        "response_mask": mask,
        "features": torch.randn(sequences, WIDTH, FEATURES, generator=generator),
        "lengths": mask.sum(dim=1) + torch.randint(1, 9, (sequences,), generator=generator),
    }


def loss(data: dict[str, torch.Tensor], weights: torch.Tensor, rows: torch.Tensor, mode: str) -> Any:
    """PPO's clipped loss of these sequences, divided as verl's ``agg_loss`` divides it."""
    mask = data["response_mask"][rows]
    advantages = data["advantages"][rows].masked_fill(~mask, 0)
    ratio = (data["features"][rows] @ weights).exp()
    losses = mask * torch.maximum(-advantages * ratio, -advantages * ratio.clamp(0.8, 1.2))
    tokens = mask.sum(dim=1)
    divisor = (tokens > 0).sum().clamp(min=1)
    return {
        "token-mean": losses.sum() / tokens.sum().clamp(min=1),
        "token-sum": losses.sum(),
        "seq-mean-token-sum": losses.sum() / divisor,
        "seq-mean-token-mean": (losses.sum(dim=1) / tokens.clamp(min=1)).sum() / divisor,
        "seq-mean-token-sum-norm": losses.sum() / divisor / WIDTH,
    }[mode]


def gradient(value: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(value, weights)[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_gradient_is_that_of_all_sequences(ranks: int, aggregation: str, mode: str) -> None:
    weights = torch.linspace(-0.3, 0.4, FEATURES, requires_grad=True)
    for seed, share in enumerate((0.0, 0.4, 0.75, 1.0)):
        data = batch(seed, 36, share)
        size = 12
        skip = skip_zero_advantage(
            data["advantages"],
            data["response_mask"],
            mini_batch_size=size,
            ranks=ranks,
            mode=mode,
            loss_agg_mode=aggregation,
            lengths=data["lengths"],
        )
        steps = torch.arange(36).split(size if mode == "keep-steps" else 36)
        assert len(steps) == len(skip.rows) == len(skip.scale)
        for whole, parts, scale in zip(steps, skip.rows, skip.scale.float(), strict=True):
            left = torch.cat(parts)
            assert set(left.tolist()) <= set(whole.tolist())
            torch.testing.assert_close(
                gradient(scale * loss(data, weights, left, aggregation), weights),
                gradient(loss(data, weights, whole, aggregation), weights),
                rtol=1e-6,
                atol=1e-6,
            )


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("multiple", [1, 2, 3])
def test_ranks_and_micro_batches_stay_aligned(ranks: int, multiple: int) -> None:
    for seed in range(20):
        data = batch(seed, 48, 0.2 * (seed % 6))
        skip: Skip = skip_zero_advantage(
            data["advantages"],
            data["response_mask"],
            mini_batch_size=24,
            ranks=ranks,
            lengths=data["lengths"],
            row_multiple=multiple,
        )
        useful = {
            row for row in range(48) if (data["advantages"][row][data["response_mask"][row]] != 0).any()
        }
        run = [row for parts in skip.rows for part in parts for row in part.tolist()]
        assert len(run) == len(set(run))
        assert useful <= set(run)
        assert skip.skipped_ratio == pytest.approx(1 - len(run) / 48)
        assert (skip.with_advantage, skip.fillers) == (len(useful), len(run) - len(useful))
        for number, parts in enumerate(skip.rows):
            members = set(range(24 * number, 24 * number + 24))
            counts = {len(part) for part in parts}
            assert len(counts) == 1
            (count,) = counts
            assert count % multiple == 0
            assert count == 24 // ranks or (count - multiple) * ranks < max(1, len(useful & members)), (
                "no more than alignment needs"
            )
            fillers = [
                int(data["lengths"][row]) for part in parts for row in part.tolist() if row not in useful
            ]
            spare = sorted(int(data["lengths"][row]) for row in members - useful)
            assert sorted(fillers) == spare[: len(fillers)], "the shortest fill up"


def test_a_mini_batch_without_work_keeps_its_step() -> None:
    advantages = torch.zeros(8, 2)
    advantages[5] = 1
    skip = skip_zero_advantage(advantages, torch.ones(8, 2), mini_batch_size=4, ranks=2)
    assert [[len(part) for part in parts] for parts in skip.rows] == [[1, 1], [1, 1]]
    assert 5 in torch.cat(skip.rows[1]).tolist()
    assert skip.idle_steps == 1
    assert (
        skip_zero_advantage(advantages, torch.ones(8, 2), mini_batch_size=4, mode="one-step").idle_steps == 0
    )


def test_few_sequences_change_their_rank_and_tokens_are_evened_out() -> None:
    advantages = torch.zeros(8, 1)
    advantages[:4] = 1  # all of rank 0's have work, and none of rank 1's
    lengths = torch.tensor([1, 2, 3, 4, 1, 1, 1, 1])
    skip = skip_zero_advantage(advantages, torch.ones(8, 1), ranks=2, lengths=lengths)
    first, second = (part.tolist() for part in skip.rows[0])
    assert sorted(first + second) == [0, 1, 2, 3]
    assert abs(int(lengths[first].sum()) - int(lengths[second].sum())) <= 2


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"entropy_coeff": 0.01}, "entropy_coeff=0.01"),
        ({"kl_loss_coef": 0.001}, "kl_loss_coef=0.001"),
        ({"shared_critic": True}, "shared_critic=True"),
        ({"mode": "fast"}, "mode is 'fast'; it must be one of keep-steps, one-step"),
        ({"loss_agg_mode": "mean"}, "loss_agg_mode is 'mean'; it must be one of token-mean"),
        ({"mini_batch_size": 3}, "8 sequences cannot be split into mini-batches of 3 on 1 ranks"),
        ({"mini_batch_size": 4, "ranks": 3}, "into mini-batches of 4 on 3 ranks"),
        ({"response_mask": torch.ones(8, 3)}, r"advantages \(8, 2\) and response_mask \(8, 3\)"),
    ],
)
def test_what_would_be_another_training_is_refused(changed: dict[str, Any], says: str) -> None:
    given = {"advantages": torch.zeros(8, 2), "response_mask": torch.ones(8, 2), **changed}
    with pytest.raises(TunerError, match=says):
        skip_zero_advantage(**given)


def test_a_multiple_beyond_what_a_rank_has_leaves_all_rows() -> None:
    """As when a fixed micro-batch size does not divide a rank's sequences, which the trainer refuses."""
    data = batch(1, 12, 0.0)
    skip = skip_zero_advantage(data["advantages"], data["response_mask"], ranks=2, row_multiple=5)
    (held,) = skip.rows
    assert sorted(torch.cat(held).tolist()) == list(range(12))
    assert [len(part) for part in held] == [6, 6]
