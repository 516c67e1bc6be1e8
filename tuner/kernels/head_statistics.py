"""Statistics of the logits of hidden states, by the kernels that their device calls for.

R: rows worked on. T: rows given. V: vocabulary entries, of this rank's shard where ranks share them.
H: hidden size. S: splits of the vocabulary, or the ranks' shards.
"""

from dataclasses import dataclass

from torch import Tensor

from tuner.kernels import reference, vocab_parallel
from tuner.kernels.measured_tiles import choose_plan
from tuner.kernels.reference import Statistics
from tuner.kernels.rows import Rows
from tuner.kernels.tiles import Path, TileWork


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Statistics of the logits of rows, by splits of the vocabulary."""

    partials_4SR: Tensor
    in_triton: bool
    inverse_temperature_R: Tensor
    group: str

    def write(self, rows: Rows, outputs: Statistics) -> None:
        """Merge them into the vectors of all rows.

        Args:
            rows: which of all rows these are.
            outputs: of all rows.
        """
        partials_4SR = self.partials_4SR
        if not self.in_triton:
            if self.group:
                partials_4SR = vocab_parallel.gather_statistics(partials_4SR[:, 0], self.group)
            merged = reference.merge(partials_4SR, self.inverse_temperature_R)
            for output, values in zip(outputs.vectors(), merged.vectors(), strict=True):
                output.copy_(rows.put(values, output.numel()))
            return
        from tuner.kernels.statistics import merge, merge_splits

        if self.group:
            of_shard_4R = merge_splits(partials_4SR, self.inverse_temperature_R)
            partials_4SR = vocab_parallel.gather_statistics(of_shard_4R, self.group)
        merge(partials_4SR, self.inverse_temperature_R, rows.index_R, outputs.vectors())


def statistics_by_parts(
    hidden_RH: Tensor,
    weight_VH: Tensor,
    labels_R: Tensor,
    inverse_temperature_R: Tensor,
    saved_TV: Tensor | None,
    *,
    group: str = "",
    row_extremes: Tensor | None = None,
) -> Parts:
    """Compute them, without waiting for the device.

    Args:
        hidden_RH: elements of a row side by side, as in ``weight_VH``.
        weight_VH: same dtype.
        labels_R: int32; -1 where it is another shard's.
        inverse_temperature_R: float32.
        saved_TV: takes the logits; None keeps none.
        group: ranks that share the vocabulary.
        row_extremes: as of :func:`tuner.kernels.forward.partial_statistics`; of Triton's kernels alone.
    """
    plan = choose_plan(TileWork.STATISTICS if saved_TV is None else TileWork.SAVING, hidden_RH, weight_VH)
    matrices_and_rows = (hidden_RH, weight_VH, labels_R, inverse_temperature_R, saved_TV)
    in_triton = plan.path is not Path.REFERENCE
    if in_triton:
        from tuner.kernels.forward import partial_statistics

        partials_4SR = partial_statistics(plan, *matrices_and_rows, row_extremes)
    else:
        partials_4SR = _reference_statistics(*matrices_and_rows)
    return Parts(
        partials_4SR=partials_4SR,
        in_triton=in_triton,
        inverse_temperature_R=inverse_temperature_R,
        group=group,
    )


def _reference_statistics(
    hidden_RH: Tensor,
    weight_VH: Tensor,
    labels_R: Tensor,
    inverse_temperature_R: Tensor,
    saved_TV: Tensor | None,
) -> Tensor:
    logits_RV = hidden_RH.float() @ weight_VH.float().T
    if saved_TV is not None:
        saved_TV[:, weight_VH.shape[0] :] = 0
        logits_RV = saved_TV[:, : weight_VH.shape[0]].copy_(logits_RV).float()
    return reference.partial_statistics(logits_RV, labels_R, inverse_temperature_R)[:, None]
