"""Loss and gradients in chunks of rows: the logits of one chunk exist, and become their own gradient.

T: rows given. R: rows that are not ignored. C: rows of a chunk. M: those of them with a gradient.
V: vocabulary entries. H: hidden size.

A chunk's logits are written with their statistics, and with these the derivatives of the loss are
known: three matrix products, none of them repeated. No atomics.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tuner.kernels import reference, tiles
from tuner.kernels.asynchronous_read import ask
from tuner.kernels.backward import Wanted, accumulate, converting
from tuner.kernels.head_statistics import statistics_by_parts
from tuner.kernels.policy_objective import Objective, token_losses
from tuner.kernels.reference import Statistics
from tuner.kernels.rows import Rows

LEAST_CHUNK = 4096  # each further pass over the sum of the weight's gradient takes 1/20 of the products' time
_WHOLE_TILES = 128  # rows


@dataclass(frozen=True, kw_only=True)
class ChunkProblem:
    """What the loss is made of: the matrices of all rows, the rest of those that are not ignored."""

    hidden_TH: Tensor  # the last dimension contiguous, as in ``weight_VH``
    weight_VH: Tensor
    rows: Rows
    labels_R: Tensor  # int32
    inverse_temperature_R: Tensor
    tokens_4R: Tensor  # of :func:`tuner.kernels.policy_objective.token_losses`
    objective: Objective

    def hidden_of(self, part: slice) -> Tensor:
        """Hidden states of a chunk."""
        index_R = self.rows.index_R
        return self.hidden_TH[part] if index_R is None else self.hidden_TH.index_select(0, index_R[part])

    def places_of(self, part: slice, chosen: Rows) -> Tensor | slice:
        """Where rows chosen from a chunk are among all, int64; a slice where they are side by side."""
        if self.rows.index_R is not None:
            return chosen.take(self.rows.index_R[part])
        return part if chosen.index_R is None else chosen.index_R + part.start


@dataclass(frozen=True, kw_only=True)
class ChunkResults:
    """Loss, statistics and gradients of all rows: zero for rows left out, None for a gradient not wanted."""

    loss: Tensor
    log_probs_T: Tensor
    entropy_T: Tensor
    d_hidden_TH: Tensor | None
    d_weight_VH: Tensor | None


def choose_chunk_tokens(rows: int, hidden: int, dtype: torch.dtype, *, weight_wanted: bool) -> int:
    """Rows of a chunk: as many as cost no memory, and no fewer than ``LEAST_CHUNK``.

    In bytes for each vocabulary entry, in 16 bits: the gradient of the weight takes ``4 H`` while chunks
    are added to it and ``6 H`` when it is rounded at the end, so the ``2 C`` of the logits are free up to
    ``C = H``. A single chunk needs no sum, only the ``2 H`` of the gradient itself, and may be ``H`` rows
    longer for that. In 32 bits nothing is rounded, so nothing is free.
    """
    free = hidden if weight_wanted and dtype.itemsize < 4 else 0
    most = max(LEAST_CHUNK, free)
    if rows <= most + free:
        return max(rows, 1)
    even_rows = -(-rows // -(-rows // most))
    return -(-even_rows // _WHOLE_TILES) * _WHOLE_TILES


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """From which row of a chunk each row's gradient is made, so that rows that have one come first.

    How many they are is known to the device alone.
    """

    sources_C: Tensor  # int64; of no meaning from row M on
    count: Tensor  # M, one int64

    def apply(
        self, path: tiles.Path, logits_CV: Tensor, vocabulary: int, labels_C: Tensor, coefficients_6C: Tensor
    ) -> None:
        """Make the gradients of the logits in their place; M rows have a meaning afterwards."""
        labels_C, coefficients_6C = labels_C[self.sources_C], coefficients_6C[:, self.sources_C]
        write = converting(path, logits_CV, self.sources_C, labels_C, coefficients_6C, self.count)
        write(0, logits_CV[:, :vocabulary])


def compacted(moved_C: Tensor) -> Compaction:
    """How a matrix is compacted in place to the rows where the mask is true.

    Those among the first M stay where they are; the others fill the holes between them. So no row is
    written that another one is made of, in whatever order rows are written. Nothing waits for M.
    """
    moved_first_C = moved_C.byte().argsort(descending=True, stable=True)
    count = moved_C.sum().reshape(1)
    hole_C = ((~moved_C).cumsum(0) - 1).clamp(min=0)
    filling_C = moved_first_C[(count - 1 - hole_C).clamp(min=0)]
    place_C = torch.arange(moved_C.numel(), device=moved_C.device)
    return Compaction(sources_C=place_C.where(moved_C, filling_C), count=count)


class _Gradients:
    """The gradients of hidden states and weight while chunks are added to them."""

    def __init__(self, problem: ChunkProblem, wanted: Wanted, *, chunks: int) -> None:
        self._weight_VH = problem.weight_VH
        self.d_hidden_TH = problem.hidden_TH.new_zeros(problem.hidden_TH.shape) if wanted.hidden else None
        # A sum of several chunks is rounded once, at the end.
        dtype = self._weight_VH.dtype if chunks == 1 else torch.float32
        self._sum_VH = (
            self._weight_VH.new_empty(self._weight_VH.shape, dtype=dtype) if wanted.weight else None
        )
        self._empty = True

    def add(self, d_logits_MV: Tensor, hidden_MH: Tensor, places: Tensor | slice) -> None:
        """Add what these rows contribute."""
        if self.d_hidden_TH is not None:
            d_hidden_MH = hidden_MH.new_empty(hidden_MH.shape, dtype=torch.float32)
            accumulate(d_hidden_MH, d_logits_MV, self._weight_VH, first=True)
            if isinstance(places, slice):
                self.d_hidden_TH[places].copy_(d_hidden_MH)
            else:
                self.d_hidden_TH.index_copy_(0, places, d_hidden_MH.to(hidden_MH.dtype))
        if self._sum_VH is None:
            return
        if self._sum_VH.dtype is torch.float32:
            accumulate(self._sum_VH, d_logits_MV.T, hidden_MH, first=self._empty)
        else:
            torch.mm(d_logits_MV.T, hidden_MH, out=self._sum_VH)
        self._empty = False

    def d_weight(self) -> Tensor | None:
        """The gradient of the weight, in the weight's dtype."""
        if self._sum_VH is None:
            return None
        return torch.zeros_like(self._weight_VH) if self._empty else self._sum_VH.to(self._weight_VH.dtype)


def _statistics(
    problem: ChunkProblem, part: slice, hidden_CH: Tensor, logits_CV: Tensor | None, statistics_R: Statistics
) -> Statistics:
    """Statistics of a chunk's rows, written into the vectors of all rows."""
    statistics_C = Statistics(**{name: vector_R[part] for name, vector_R in vars(statistics_R).items()})
    parts = statistics_by_parts(
        hidden_CH, problem.weight_VH, problem.labels_R[part], problem.inverse_temperature_R[part], logits_CV
    )
    parts.write(Rows(index_R=None, count=hidden_CH.shape[0]), statistics_C)
    return statistics_C


def _add_gradients(
    problem: ChunkProblem,
    part: slice,
    hidden_CH: Tensor,
    logits_CV: Tensor,
    coefficients_6C: Tensor,
    gradients: _Gradients,
) -> None:
    """Add a chunk's gradients; its logits are the memory in which their gradient is made.

    The host hears how many rows have one while the device makes it, and has the products ready then.
    """
    compaction = compacted((coefficients_6C[3:] != 0).any(0))
    answer = ask(compaction.count)
    path, vocabulary = tiles.choose_path(hidden_CH, problem.weight_VH), problem.weight_VH.shape[0]
    compaction.apply(path, logits_CV, vocabulary, problem.labels_R[part], coefficients_6C)
    count = int(answer.numbers()[0])
    if not count:
        return
    index_M = None if count == hidden_CH.shape[0] else compaction.sources_C[:count]
    chosen = Rows(index_R=index_M, count=count)
    d_logits_MV = logits_CV[:count, :vocabulary]
    gradients.add(d_logits_MV, chosen.take(hidden_CH), problem.places_of(part, chosen))


def _work_through(
    problem: ChunkProblem, size: int, statistics_R: Statistics, gradients: _Gradients | None
) -> Tensor:
    """The loss of each row, chunk by chunk; writes the statistics, and adds to the gradients."""
    count, dtype = problem.rows.count, problem.hidden_TH.dtype
    losses_R = torch.empty_like(statistics_R.log_probs)
    rows = 0 if gradients is None else size
    room_CV = problem.hidden_TH.new_empty((rows, tiles.padded(problem.weight_VH.shape[0], dtype)))
    for start in range(0, count, size):
        part = slice(start, min(start + size, count))
        hidden_CH = problem.hidden_of(part)
        logits_CV = None if gradients is None else room_CV[: part.stop - start]
        statistics_C = _statistics(problem, part, hidden_CH, logits_CV, statistics_R)
        losses = token_losses(
            problem.objective, problem.tokens_4R[:, part], statistics_C.log_probs, statistics_C.entropy
        )
        losses_R[part] = losses.losses_T
        if gradients is not None and logits_CV is not None:
            coefficients_6C = reference.row_coefficients(
                statistics_C, problem.inverse_temperature_R[part], losses.d_log_probs_T, losses.d_entropy_T
            )
            _add_gradients(problem, part, hidden_CH, logits_CV, coefficients_6C, gradients)
    return losses_R


def policy_gradients(problem: ChunkProblem, wanted: Wanted, *, chunk_tokens: int) -> ChunkResults:
    """The loss, the statistics and the gradients that are wanted.

    Args:
        problem: the inputs.
        wanted: which gradients; without any no logits are kept, and none are rounded.
        chunk_tokens: rows of a chunk; 0 chooses it.
    """
    (total, hidden), count = problem.hidden_TH.shape, problem.rows.count
    statistics_R = Statistics.like(problem.labels_R, zero=False)
    gradients, size = None, max(count, 1)
    if wanted.hidden or wanted.weight:
        dtype = problem.hidden_TH.dtype
        chosen = chunk_tokens or choose_chunk_tokens(count, hidden, dtype, weight_wanted=wanted.weight)
        size = min(size, chosen)
        gradients = _Gradients(problem, wanted, chunks=-(-count // size))
    losses_R = _work_through(problem, size, statistics_R, gradients)
    return ChunkResults(
        loss=losses_R.sum(),
        log_probs_T=problem.rows.put(statistics_R.log_probs, total),
        entropy_T=problem.rows.put(statistics_R.entropy, total),
        d_hidden_TH=None if gradients is None else gradients.d_hidden_TH,
        d_weight_VH=None if gradients is None else gradients.d_weight(),
    )
