"""A vocabulary shared out over ranks: what they tell one another.

T: rows (tokens) given. R: rows worked on. V: vocabulary entries of a rank. H: hidden size. W: ranks.

Each rank has the statistics of its shard for all rows. They are gathered and every rank merges them,
in the order of the ranks: one exchange of 16 bytes a row, and the same bits on every rank whatever
algorithm the network's library picks.
"""

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from tuner.kernels import checks, rows
from tuner.kernels.rows import Rows

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def group_name(process_group: "ProcessGroup | None") -> str:
    """The name under which operators find the group; empty where nothing is shared out.

    Raises:
        ValueError: not a process group, as what a rank outside a new group gets of it.
    """
    if process_group is None:
        return ""
    if not isinstance(process_group, dist.ProcessGroup):
        raise ValueError(f"process_group must be a group of which this rank is part, not {process_group!r}")
    return "" if process_group.size() == 1 else str(process_group.group_name)


def _group(name: str) -> "ProcessGroup":
    # As torch's own operators find it; there is no public function that does.
    from torch._C._distributed_c10d import _resolve_process_group

    return _resolve_process_group(name)  # type: ignore[arg-type]


def gather(values: Tensor, name: str) -> Tensor:
    """The values of every rank, ``[W, ...]``, in their order; of one shape, contiguous."""
    group = _group(name)
    gathered = values.new_empty((group.size(), *values.shape))
    dist.all_gather(list(gathered.unbind()), values, group=group)
    return gathered


def gather_statistics(statistics_4R: Tensor, name: str) -> Tensor:
    """The statistics of every rank's shard, ``[4, W, R]``, as if each were a split of one vocabulary."""
    return gather(statistics_4R, name).transpose(0, 1)


def anywhere(active_T: Tensor, name: str) -> Tensor:
    """The rows that are active on any rank: an exchange of one byte a row."""
    flags = active_T.to(torch.uint8)
    dist.all_reduce(flags, op=dist.ReduceOp.MAX, group=_group(name))
    return flags.bool()


def add_up(values: Tensor, name: str) -> None:
    """Replaces each rank's values by the sum over all ranks."""
    dist.all_reduce(values, group=_group(name))


def checked_rows(
    hidden_TH: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    *,
    shard: int,
    ignore_index: int,
    name: str,
) -> tuple[Rows, int]:
    """The rows to work on, checked on all ranks, and the first label of this rank's shard.

    One exchange of 72 bytes, read from the device at once: how many entries each rank has, and
    whether all were given the same rows. So all ranks raise the same error, or none does.

    Args:
        hidden_TH: any dtype.
        labels_T: of the whole vocabulary.
        inverse_temperature_T: float32.
        shard: vocabulary entries of this rank.
        ignore_index: the label of rows that are left out.
        name: of the process group.

    Raises:
        ValueError: a label outside the whole vocabulary; a temperature below 1e-6, infinite or NaN;
            rows, labels or temperatures of which ranks have other ones.
    """
    active_T = labels_T != ignore_index
    sizes = torch.tensor([shard, *hidden_TH.shape], dtype=torch.float64, device=labels_T.device)
    label_sum = labels_T.sum(dtype=torch.float64)[None]
    mine = torch.cat((sizes, label_sum, checks.extremes(active_T, labels_T, inverse_temperature_T)))
    ranks = gather(mine, name).tolist()
    shapes = sorted({(int(tokens), int(hidden)) for _, tokens, hidden, *_ in ranks})
    if len(shapes) > 1:
        raise ValueError(f"hidden must be of one shape on all ranks of process_group, not {shapes}")
    shards = [int(entries) for entries, *_ in ranks]
    for _, _, _, _, *row_extremes in ranks:
        checks.check_extremes(row_extremes, ignore_index=ignore_index, vocabulary=sum(shards))
    if any(values != ranks[0][3:] for _, _, _, *values in ranks):
        raise ValueError("labels and temperature must be the same on all ranks of process_group")
    before = sum(shards[: _group(name).rank()])
    return rows.select(active_T, count=int(ranks[0][4])), before


def labels_within(labels_R: Tensor, first_label: int, entries: int) -> Tensor:
    """Numbers of the shard's own entries, int32; -1 for labels of other shards."""
    within_R = (labels_R - first_label).int()
    return within_R.masked_fill_((within_R < 0) | (within_R >= entries), -1)
