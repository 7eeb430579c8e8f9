"""Lots of rows: chance that belongs to a row and an epoch, whatever batch, order or process the row turns up in."""

from __future__ import annotations

import torch
from torch import Tensor


def row_lots(count: int, seed: int, epoch: int) -> Tensor:
    """A lot in [0, 1) for each row, another in each epoch, from a generator of its own.

    Being a function of seed and epoch alone it needs no state to be saved, and takes nothing from other generators.

    Shape: (count,) in double precision, so that hardly two are equal.

    >>> torch.equal(row_lots(4, 0, 1), row_lots(4, 0, 1)), torch.equal(row_lots(4, 0, 1), row_lots(4, 0, 2))
    (True, False)
    """
    source = torch.Generator().manual_seed(((seed + 1) * 1_000_003 + epoch) % 2**63)
    return torch.rand(count, generator=source, dtype=torch.float64)


def next_by_lot(lots: Tensor) -> Tensor:
    """A partner for each example: the one whose lot is the next larger, for the largest the smallest.

    Each is the partner of one, and none its own unless it is alone.

    Shape: (B,) -> (B,) positions.

    >>> next_by_lot(torch.tensor([0.5, 0.1, 0.9]))
    tensor([2, 0, 1])
    """
    order = lots.argsort(stable=True)
    partner = torch.empty_like(order)
    partner[order] = order.roll(-1)
    return partner
