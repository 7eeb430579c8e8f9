"""The memory bank: what a network has made of each row, the negatives of methods without a momentum encoder."""

from __future__ import annotations

from typing import TypedDict

import torch
from torch import Tensor, nn

from holdfast.contrastive.base import unit
from holdfast.contrastive.momentum import check_momentum
from holdfast.errors import HoldfastError
from holdfast.ranks import get_ranks


class MemorySettings(TypedDict, total=False):
    """Settings that the methods built on a memory bank have in common; see ``InstDisc``."""

    negatives: int
    momentum: float
    temperature: float


class MemoryBank(nn.Module):
    """One embedding for each row, ``v <- m v + (1 - m) f``, of length one; random directions at first.

    Parameters
    ----------
    rows: how many.
    width: of an embedding.
    momentum: m, in [0, 1).
    generator: of the random directions.

    Shape: kept (rows, width).
    """

    kept: Tensor

    def __init__(self, rows: int, width: int, momentum: float, generator: torch.Generator) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("kept", unit(torch.randn(rows, width, generator=generator)))

    def draw(self, count: int) -> Tensor:
        """(count, width) embeddings of rows drawn at random, each as often as it comes."""
        return self.kept[torch.randint(len(self.kept), (count,)).to(self.kept.device)]

    def update(self, rows: Tensor, fresh: Tensor) -> None:
        """Move the rows of a batch, of all processes, towards their new embeddings."""
        rows, fresh = (get_ranks().gather(part.to(self.kept.device)) for part in (rows, fresh))
        self.kept[rows] = unit(torch.lerp(fresh.to(self.kept.dtype), self.kept[rows], self.momentum))


def check_memory(negatives: int, momentum: float) -> None:
    if negatives < 1:
        raise HoldfastError(f"negatives must be at least 1, not {negatives}")
    check_momentum(momentum)
