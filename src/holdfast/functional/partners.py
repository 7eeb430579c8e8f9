"""Partners to mix rows with, and how much of them."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import HoldfastError


def cluster_partners(cluster: Tensor, medoids: Tensor, generator: torch.Generator, count: int = 1) -> Tensor:
    """Random other members of each cluster; where it has fewer, some come again, and a medoid alone is its own.

    Shape: cluster (n,) position in ``medoids`` of each point, medoids (k,) -> (k, count) points.
    """
    uniform = torch.rand(len(cluster), generator=generator)
    # A medoid comes last in its cluster, so that it is taken only where there is nobody else.
    uniform[medoids] = 2.0
    order = uniform.argsort()
    order = order[cluster[order].argsort(stable=True)]
    size = torch.bincount(cluster, minlength=len(medoids))
    start = size.cumsum(0) - size
    others = (size - 1).clamp_min(1)
    return order[start[:, None] + torch.arange(count) % others[:, None]]


def label_partners(y: Tensor, generator: torch.Generator) -> Tensor:
    """A random row of the same label for each row.

    Shape: y (N,) -> (N,).
    """
    if y.dim() > 1:
        raise HoldfastError("partners of the same label need classes; regression mixes inside clusters")
    y = y.cpu()
    shuffled = torch.rand(len(y), generator=generator).argsort()
    order = shuffled[y[shuffled].argsort(stable=True)]
    count = torch.bincount(y)
    start = count.cumsum(0) - count
    pick = (torch.rand(len(y), generator=generator) * count[y]).long()
    return order[start[y] + pick]


def beta_shares(alpha: tuple[float, float], count: int, generator: torch.Generator) -> Tensor:
    """(count,) draws from Beta(alpha) by the ratio of two gamma draws, from an explicit generator."""
    shape = torch.tensor(alpha).expand(count, 2).contiguous()
    draws = torch._standard_gamma(shape, generator=generator).clamp_min(1e-30)
    return draws[:, 0] / draws.sum(1)
