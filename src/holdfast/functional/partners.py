"""Partners to mix rows with, and how much of them."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import HoldfastError


def cluster_partners(owner: Tensor, chosen: Tensor, generator: torch.Generator) -> Tensor:
    """A random other member of each cluster; the medoid itself where it is alone.

    Shape: owner (n,) position in ``chosen`` of each point, chosen (k,) -> (k,) points.
    """
    lot = torch.rand(len(owner), generator=generator)
    # A medoid draws the worst lot, so that it is taken only where its cluster has nobody else.
    lot[chosen] = 2.0
    order = lot.argsort()
    order = order[owner[order].argsort(stable=True)]
    first = torch.searchsorted(owner[order], torch.arange(len(chosen)))
    return order[first]


def label_partners(y: Tensor, generator: torch.Generator) -> Tensor:
    """A random row of the same label for each row.

    Shape: y (N,) -> (N,).
    """
    if y.dim() > 1:
        raise HoldfastError("partners of the same label need classes; regression mixes inside clusters")
    y = y.cpu()
    lot = torch.rand(len(y), generator=generator).argsort()
    order = lot[y[lot].argsort(stable=True)]
    count = torch.bincount(y)
    start = count.cumsum(0) - count
    pick = (torch.rand(len(y), generator=generator) * count[y]).long()
    return order[start[y] + pick]


def beta_shares(alpha: tuple[float, float], count: int, generator: torch.Generator) -> Tensor:
    """(count,) draws from Beta(alpha) by the ratio of two gamma draws, from an explicit generator."""
    shape = torch.tensor(alpha).expand(count, 2).contiguous()
    draws = torch._standard_gamma(shape, generator=generator).clamp_min(1e-30)
    return draws[:, 0] / draws.sum(1)
