"""Statistics of the logits of hidden states, by the kernels that their device calls for.

R: rows worked on. T: rows given. V: vocabulary entries, of this rank's shard where ranks share them.
H: hidden size. S: splits of the vocabulary, or the ranks' shards.
"""

from torch import Tensor

from tuner.kernels import reference, vocab_parallel
from tuner.kernels.plans import choose_plan
from tuner.kernels.reference import Statistics
from tuner.kernels.rows import Rows
from tuner.kernels.tiles import Path, Work


def head_statistics(
    hidden_RH: Tensor,
    weight_VH: Tensor,
    labels_R: Tensor,
    inverse_temperature_R: Tensor,
    saved_TV: Tensor | None,
    rows: Rows,
    outputs: Statistics,
    group: str = "",
) -> None:
    """Write the statistics of the rows worked on into the vectors of all rows.

    Args:
        hidden_RH: elements of a row side by side, as in ``weight_VH``.
        weight_VH: same dtype.
        labels_R: int32; -1 where it is another shard's.
        inverse_temperature_R: float32.
        saved_TV: takes the logits; None keeps none.
        rows: which of all rows these are.
        outputs: of all rows.
        group: ranks that share the vocabulary.
    """
    work = Work.STATISTICS if saved_TV is None else Work.SAVING
    plan = choose_plan(work, hidden_RH, weight_VH)
    if plan.path is Path.REFERENCE:
        logits_RV = hidden_RH.float() @ weight_VH.float().T
        if saved_TV is not None:
            saved_TV[:, weight_VH.shape[0] :] = 0
            logits_RV = saved_TV[:, : weight_VH.shape[0]].copy_(logits_RV).float()
        partials_4R = reference.partial_statistics(logits_RV, labels_R, inverse_temperature_R)
        partials_4SR = vocab_parallel.gather_statistics(partials_4R, group) if group else partials_4R[:, None]
        merged = reference.merge(partials_4SR, inverse_temperature_R)
        for output, values in zip(outputs.vectors(), merged.vectors(), strict=True):
            output.copy_(rows.put(values, output.numel()))
        return
    from tuner.kernels.forward import partial_statistics
    from tuner.kernels.statistics import merge, merge_splits

    partials_4SR = partial_statistics(plan, hidden_RH, weight_VH, labels_R, inverse_temperature_R, saved_TV)
    if group:
        of_shard_4R = merge_splits(partials_4SR, inverse_temperature_R)
        partials_4SR = vocab_parallel.gather_statistics(of_shard_4R, group)
    merge(partials_4SR, inverse_temperature_R, rows.index_R, outputs.vectors())
