"""What data-parallel ranks tell one another, and the sequences that they hand over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from tuner.zero_advantage import Skip, plan


@dataclass(frozen=True, kw_only=True)
class RankSequences:
    """What a rank says of the sequences that it holds, in their order."""

    has_advantage: list[bool]
    tokens: list[int]  # of the loss
    lengths: list[int]  # with the prompt
    mini_batch: list[int]  # the number of each one's mini-batch


@dataclass(frozen=True)
class Ranks:
    """The data-parallel ranks; each may be several processes that hold the same sequences."""

    group: Any = None  # of torch.distributed; all processes by default
    copies: int = 1  # neighbouring processes with the same sequences: Ulysses' size where the group is all

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, in order; of this one where no processes are joined."""
        if not dist.is_initialized():
            return [value]
        values: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(values, value, self.group)
        return values[:: self.copies]

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return dist.get_rank(self.group) // self.copies if dist.is_initialized() else 0


@dataclass(frozen=True, kw_only=True)
class Agreed:
    """What all ranks do, the same on each."""

    skip: Skip
    held: Sequence[RankSequences]  # by rank
    starts: Sequence[int]  # the row of each rank's first sequence

    @property
    def tokens(self) -> int:
        """Tokens of the loss in the whole batch, those left out included."""
        return sum(sum(part.tokens) for part in self.held)

    @property
    def run_lengths(self) -> list[int]:
        """The tokens of every sequence that runs, on all ranks."""
        lengths = [length for part in self.held for length in part.lengths]
        return [lengths[row] for parts in self.skip.rows for part in parts for row in part.tolist()]


def agree(
    held: RankSequences, ranks: Ranks, *, mode: str, loss_agg_mode: str, row_multiple: int = 1
) -> Agreed:
    """Plans the same on every rank what each trains on; to be called by all of them."""
    everyone: list[RankSequences] = ranks.gather(held)
    starts = [0]
    for part in everyone:
        starts.append(starts[-1] + len(part.tokens))
    skip = plan(
        has_advantage=[value for part in everyone for value in part.has_advantage],
        tokens=[value for part in everyone for value in part.tokens],
        lengths=[value for part in everyone for value in part.lengths],
        mini_batch=[value for part in everyone for value in part.mini_batch],
        home=[rank for rank, part in enumerate(everyone) for _row in part.tokens],
        ranks=len(everyone),
        mode=mode,
        loss_agg_mode=loss_agg_mode,
        row_multiple=row_multiple,
    )
    return Agreed(skip=skip, held=everyone, starts=starts)


def handed_over(
    agreed: Agreed,
    ranks: Ranks,
    take: Callable[[list[int]], Any],
    join: Callable[[list[Any]], Any],
) -> tuple[Any, list[list[int]]]:
    """The sequences of this rank after the exchange, and where each mini-batch's are among them.

    Nothing is sent where every rank keeps its own.

    Args:
        agreed: of ``agree``.
        ranks: the same.
        take: these sequences of what this rank holds.
        join: parts behind one another; at least one.
    """
    first, after = agreed.starts[ranks.rank], agreed.starts[ranks.rank + 1]
    wanted = [parts[ranks.rank].tolist() for parts in agreed.skip.rows]
    own = [row for part in wanted for row in part if first <= row < after]
    place = {row: index for index, row in enumerate(own)}
    joined = [take([row - first for row in own])] if own else []
    moved = _moved(agreed)
    if any(moved):
        parcels = ranks.gather(
            take([row - first for row in moved[ranks.rank]]) if moved[ranks.rank] else None
        )
        for parcel, rows in zip(parcels, moved, strict=True):
            if parcel is not None:
                start = sum(map(len, joined))
                place |= {row: start + index for index, row in enumerate(rows)}
                joined.append(parcel)
    return join(joined), [[place[row] for row in part] for part in wanted]


def _moved(agreed: Agreed) -> list[list[int]]:
    """For each rank the rows that it holds and another one trains on."""
    moved: list[list[int]] = [[] for _part in agreed.held]
    for parts in agreed.skip.rows:
        for rank, part in enumerate(parts):
            for row in part.tolist():
                home = next(index for index in range(len(moved)) if row < agreed.starts[index + 1])
                if home != rank:
                    moved[home].append(row)
    return [sorted(rows) for rows in moved]


def has_advantage(advantages: Sequence[torch.Tensor], masks: Sequence[torch.Tensor]) -> list[bool]:
    """Whether each sequence has an advantage at a token of the loss; both (response length,) per sequence."""
    return [bool((row[mask.bool()] != 0).any()) for row, mask in zip(advantages, masks, strict=True)]


def measures(agreed: Agreed, repeats: int = 1) -> dict[str, float]:
    """What is logged of the skip; no name has "min" or "max" in it, which verl would aggregate by."""
    skip = agreed.skip
    return {
        "actor/skip/left_out_ratio": skip.skipped_ratio,
        "actor/skip/zero_advantage_ratio": 1 - skip.with_advantage / skip.sequences,
        "actor/skip/steps_without_gradient": float(skip.idle_steps * repeats),
    }
