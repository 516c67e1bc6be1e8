"""Which sequences of a batch an update needs, where those without an advantage are left out.

The policy gradient of a sequence is a multiple of its advantages: where they are all zero, the sequence
goes forward and backward for a gradient of zero. ``skip_zero_advantage`` is for any trainer; torch is all it
needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import torch

from tuner.errors import TunerError
from tuner.language import _

KEEP_STEPS = "keep-steps"
ONE_STEP = "one-step"
MODES = (KEEP_STEPS, ONE_STEP)

TOKEN_MEAN = "token-mean"
TOKEN_SUM = "token-sum"
SEQUENCE_MEANS = ("seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
AGGREGATIONS = (TOKEN_MEAN, TOKEN_SUM, *SEQUENCE_MEANS)


@dataclass(frozen=True, kw_only=True)
class Skip:
    """What of a batch is to be trained on, and how its loss is scaled.

    Every rank has the same number of rows in a mini-batch, and at least one: a mini-batch of which nothing
    is left runs its shortest sequences for a gradient of zero, so that the optimizer's step, with its
    momentum and weight decay, is made as it would have been.
    """

    rows: tuple[
        tuple[torch.Tensor, ...], ...
    ]  # [mini-batch][rank], each (rows,) int64: indices into the batch
    scale: torch.Tensor  # (mini-batches,) float64: what the loss over the rows that are left is multiplied by
    sequences: int  # of the batch
    with_advantage: int  # sequences that have one; all of them are in ``rows``
    fillers: int  # sequences without one that run so that ranks and micro-batches stay aligned
    idle_steps: int  # mini-batches in which no sequence has an advantage

    @property
    def skipped_ratio(self) -> float:
        """The share of the sequences that does not run."""
        return 1 - (self.with_advantage + self.fillers) / self.sequences


def skip_zero_advantage(
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    *,
    mini_batch_size: int | None = None,
    ranks: int = 1,
    mode: str = KEEP_STEPS,
    loss_agg_mode: str = TOKEN_MEAN,
    lengths: torch.Tensor | None = None,
    row_multiple: int = 1,
    entropy_coeff: float = 0.0,
    kl_loss_coef: float = 0.0,
    shared_critic: bool = False,
) -> Skip:
    """Leave out the sequences whose advantages are all zero, with the same gradient.

    Mini-batch ``k`` is rows ``k * mini_batch_size`` and on, and its ranks hold equal parts of it in order; a
    row changes its rank only where the ranks would not have equally many. The loss of a mini-batch,
    normalised over the rows that are left on all ranks and multiplied by ``scale``, has the gradient of the
    whole mini-batch.

    Args:
        advantages: (batch, response length); what they are where the mask is 0 does not matter.
        response_mask: (batch, response length); 1 or True for the tokens of the loss.
        mini_batch_size: sequences of one optimizer step on all ranks; all of the batch by default.
        ranks: data-parallel ranks.
        mode: ``keep-steps`` for as many optimizer steps as before, ``one-step`` for one over what is left.
        loss_agg_mode: what the loss is divided by: ``token-mean``, ``token-sum``, ``seq-mean-token-sum``,
            ``seq-mean-token-mean``, or ``seq-mean-token-sum-norm`` with a divisor that stays.
        lengths: (batch,) tokens of each sequence with its prompt, to even out the ranks and to choose the
            shortest; the tokens in the mask by default.
        row_multiple: a rank's rows are a multiple of it, such as a fixed micro-batch size.
        entropy_coeff: of the loss; it has to be 0.
        kl_loss_coef: of the loss; it has to be 0.
        shared_critic: whether a critic's loss trains the same weights; it must not.

    Raises:
        TunerError: a loss that acts on sequences without an advantage too, or sizes that do not fit.
    """
    _refuse_other_losses(entropy_coeff=entropy_coeff, kl_loss_coef=kl_loss_coef, shared_critic=shared_critic)
    if advantages.dim() != 2 or advantages.shape != response_mask.shape:
        raise TunerError(
            _("advantages {advantages} and response_mask {mask} must be (batch, response length)").format(
                advantages=tuple(advantages.shape), mask=tuple(response_mask.shape)
            )
        )
    if loss_agg_mode not in AGGREGATIONS:
        raise _not_one_of("loss_agg_mode", loss_agg_mode, AGGREGATIONS)
    batch = len(advantages)
    size = batch if mini_batch_size is None else mini_batch_size
    if not batch or size < 1 or batch % size or ranks < 1 or size % ranks:
        raise TunerError(
            _(
                "{batch} sequences cannot be split into mini-batches of {size} on {ranks} ranks: "
                "each size must divide the one before it"
            ).format(batch=batch, size=size, ranks=ranks)
        )
    mask = response_mask.bool()
    tokens = mask.sum(dim=1)
    row = torch.arange(batch)
    return plan(
        has_advantage=((advantages != 0) & mask).any(dim=1).tolist(),
        tokens=tokens.tolist(),
        lengths=(tokens if lengths is None else lengths).tolist(),
        mini_batch=(row // size).tolist(),
        home=(row % size * ranks // size).tolist(),
        ranks=ranks,
        mode=mode,
        loss_agg_mode=loss_agg_mode,
        row_multiple=row_multiple,
    )


def plan(
    *,
    has_advantage: Sequence[bool],
    tokens: Sequence[int],
    lengths: Sequence[int],
    mini_batch: Sequence[int],
    home: Sequence[int],
    ranks: int,
    mode: str,
    loss_agg_mode: str,
    row_multiple: int = 1,
) -> Skip:
    """Plans the skip from what each sequence is: for a trainer whose batch lies on several ranks.

    Args:
        has_advantage: whether a sequence has one anywhere.
        tokens: those of the loss.
        lengths: tokens with the prompt.
        mini_batch: the number of the mini-batch of each sequence, from 0.
        home: the rank that holds it.
        ranks: see ``skip_zero_advantage``, as the rest.
        mode: likewise.
        loss_agg_mode: likewise.
        row_multiple: likewise.
    """
    if mode not in MODES:
        raise _not_one_of("mode", mode, MODES)
    mini_batches = 1 if mode == ONE_STEP else max(mini_batch) + 1
    members: list[list[int]] = [[] for _number in range(mini_batches)]
    for row, number in enumerate(mini_batch):
        members[0 if mode == ONE_STEP else number].append(row)
    rows, scale, idle = [], [], 0
    for those in members:
        useful = [row for row in those if has_advantage[row]]
        spare = sorted((row for row in those if not has_advantage[row]), key=lambda row: (lengths[row], row))
        idle += not useful
        wanted = ceil(max(len(useful), 1) / ranks / row_multiple) * row_multiple
        rows_per_rank = min(wanted, len(those) // ranks)
        held = _rows_by_rank(
            useful, spare[: rows_per_rank * ranks - len(useful)], lengths, home, ranks, rows_per_rank
        )
        rows.append(tuple(torch.tensor(part, dtype=torch.int64) for part in held))
        left = [row for part in held for row in part]
        scale.append(_divisor(left, tokens, loss_agg_mode) / _divisor(those, tokens, loss_agg_mode))
    return Skip(
        rows=tuple(rows),
        scale=torch.tensor(scale, dtype=torch.float64),
        sequences=len(has_advantage),
        with_advantage=sum(has_advantage),
        fillers=sum(len(part) for parts in rows for part in parts) - sum(has_advantage),
        idle_steps=idle,
    )


def _rows_by_rank(
    useful: list[int],
    fillers: list[int],
    lengths: Sequence[int],
    home: Sequence[int],
    ranks: int,
    rows_per_rank: int,
) -> list[list[int]]:
    """The rows of each rank: as many on all, moved only as far as that needs, and with like many tokens."""
    held: list[list[int]] = [[] for _rank in range(ranks)]
    for row in useful:
        held[home[row]].append(row)
    load = [sum(lengths[row] for row in part) for part in held]
    while max(map(len, held)) > rows_per_rank:
        giver = max(
            (rank for rank in range(ranks) if len(held[rank]) > rows_per_rank), key=lambda rank: load[rank]
        )
        taker = min(
            (rank for rank in range(ranks) if len(held[rank]) < rows_per_rank), key=lambda rank: load[rank]
        )
        evening = (load[giver] - load[taker]) / 2
        row = min(held[giver], key=lambda row: abs(lengths[row] - evening))
        held[giver].remove(row)
        held[taker].append(row)
        load[giver] -= lengths[row]
        load[taker] += lengths[row]
    homeless: list[int] = []
    for row in fillers:
        part = held[home[row]]
        (part if len(part) < rows_per_rank else homeless).append(row)
    for part in held:
        while len(part) < rows_per_rank:
            part.append(homeless.pop())
    return held


def _divisor(rows: Sequence[int], tokens: Sequence[int], loss_agg_mode: str) -> int:
    """What the loss of these rows is divided by: tokens, or sequences with any; 1 where there is none."""
    if loss_agg_mode == TOKEN_SUM:
        return 1
    if loss_agg_mode == TOKEN_MEAN:
        return sum(tokens[row] for row in rows) or 1
    return sum(tokens[row] > 0 for row in rows) or 1


def _refuse_other_losses(*, entropy_coeff: float, kl_loss_coef: float, shared_critic: bool) -> None:
    for name, value in {
        "entropy_coeff": entropy_coeff,
        "kl_loss_coef": kl_loss_coef,
        "shared_critic": shared_critic,
    }.items():
        if value:
            raise TunerError(
                _(
                    "{name}={value}: this loss acts on sequences without an advantage too, so leaving them "
                    "out would be another training"
                ).format(name=name, value=value)
            )


def _not_one_of(name: str, value: object, allowed: Sequence[str]) -> TunerError:
    return TunerError(
        _("{name} is {value!r}; it must be one of {allowed}").format(
            name=name, value=value, allowed=", ".join(allowed)
        )
    )
