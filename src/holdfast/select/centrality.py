"""The most central points of a set."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.select.points import Points, checked_points, count_of, distance_blocks
from holdfast.select.selection import Selection, cluster_sizes, in_kind, like
from holdfast.select.weights import nearest


class Centrality(NamedTuple):
    """Mean distance of each point to the others, and how sure that is.

    Shapes
    ------
    mean: (n,) float64, least is most central.
    error: (n,) float64, the standard error that comes from comparing with a sample; zero where all were compared.
    """

    mean: Tensor
    error: Tensor


def central(
    points: Points, k: float, reference: int | None = None, generator: torch.Generator | None = None
) -> Selection:
    """The k points of smallest summed distance to all points, or to a random sample of them.

    Ranks c_j = sum_i ||g_i - g_j||, nearest first, ties to the lowest index. Takes n² distances but never
    holds more than a block of them; a reference of m points takes n·m.

    Parameters
    ----------
    points: finite floats, on any device.
    k: from 1 to n, or a share of them in (0, 1).
    reference: number of random points that distances are summed to, at least 1; None, or n and more,
        takes all.
    generator: draws the reference; None is a generator of seed 0.

    Shapes
    ------
    points (n, d) -> Selection of k; ``gain`` is minus the mean distance to the points compared with, the
    point itself among them, ``weight`` the cluster size, and ``objective`` the summed distance of all points to their
    nearest chosen one.

    Differs from the paper: CRUST describes facility location; its authors' code ranks by total value and so
    selects exactly these points.

    Reference: Mirzasoleiman, Cao and Leskovec, "Coresets for Robust Training of Neural Networks against Noisy
    Labels", NeurIPS 2020.

    >>> central(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 2).index.tolist()
    [1, 2]
    """
    checked = checked_points(points)
    count = count_of(k, len(checked))
    far = centrality(checked, reference, generator).mean
    index = far.argsort(stable=True)[:count]
    assignment = nearest(checked, index)
    loss = float((checked.double() - checked[index[assignment]].double()).norm(dim=1).sum())
    return in_kind(Selection(index, cluster_sizes(assignment, count), -far[index], assignment, loss), points)


def centrality(points: Points, reference: int | None = None, generator: torch.Generator | None = None) -> Centrality:
    """Mean distance of each point to all points, itself among them, or to a random sample; least is central.

    Parameters
    ----------
    points: finite floats, on any device.
    reference: number of random points in the sample, at least 1; None, or n and more, takes all.
    generator: draws the sample; None is a generator of seed 0.

    Shapes
    ------
    points (n, d) -> Centrality of (n,) float64 each.
    """
    checked = checked_points(points)
    n = len(checked)
    others = checked[_draw(n, reference, generator)]
    m = len(others)
    mean, error = [], []
    for d in distance_blocks(checked, others):
        # Distances of 24 bits add up without rounding in a float64, so equal sums tie whatever their order.
        d = d.float()
        mean.append(d.sum(1, dtype=torch.float64) / m)
        if m < n:
            spread = d.double().var(1) if m > 1 else torch.full((len(d),), torch.inf, dtype=torch.float64)
            # Drawn without replacement: a sample of nearly all leaves nearly no doubt.
            error.append((spread / m * (1 - m / n)).sqrt())
    doubt = torch.cat(error) if error else torch.zeros(n, dtype=torch.float64)
    return Centrality(like(torch.cat(mean), points), like(doubt, points))


def _draw(n: int, reference: int | None, generator: torch.Generator | None) -> Tensor:
    if reference is not None and reference < 1:
        raise HoldfastError(f"cannot compare with {reference} points; choose at least 1")
    if reference is None or reference >= n:
        return torch.arange(n)
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    return torch.randperm(n, generator=generator, device=generator.device)[:reference].cpu()
