"""The kernels and the tile of a pass: measured on a card like this one, else the default of the device."""

from torch import Tensor

from tuner.kernels import measured_tiles, tiles
from tuner.kernels.tiles import Path, Plan, TileWork


def choose_plan(work: TileWork, hidden_TH: Tensor, weight_VH: Tensor) -> Plan:
    """Path and tile of a pass over these matrices, whose last dimension is contiguous.

    A choice from a table: one that a timing makes while it runs would change the order of the sums, and
    the bits with it.
    """
    paths = tiles.possible_paths(hidden_TH, weight_VH)
    if hidden_TH.is_cuda and hidden_TH.element_size() == 2 and Path.REFERENCE not in paths:
        sizes = (hidden_TH.shape[0], hidden_TH.shape[1], weight_VH.shape[0])
        card = measured_tiles.card_of(hidden_TH.device)
        if plan := measured_tiles.fastest(card, work, sizes, paths):
            return plan
    return Plan(path=paths[0], tile=tiles.default_tile(paths[0], hidden_TH))
