"""The most central points of a set."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.select.weights import (
    Selection,
    check_size,
    checked_points,
    cluster_sizes,
    distance_blocks,
    nearest,
)


def central(
    points: Tensor, k: int, reference: int | None = None, generator: torch.Generator | None = None
) -> Selection:
    """The k points of smallest summed distance to all points, or to a random sample of them.

    Ranks c_j = sum_i ||g_i - g_j||, nearest first, ties to the lowest index. Takes n² distances but never
    holds more than a block of them; a reference of m points takes n·m.

    Parameters
    ----------
    points: finite floats, on any device.
    k: from 1 to n.
    reference: number of random points that distances are summed to, at least 1; None, or n and more,
        takes all.
    generator: draws the reference; None is a generator of seed 0.

    Shapes
    ------
    points (n, d) -> Selection of k; ``gain`` is minus the mean distance to the points compared with, the
    point itself among them, and ``weight`` the cluster size.

    Differs from the paper: CRUST describes facility location; its authors' code ranks by total value and so
    selects exactly these points.

    Reference: Mirzasoleiman, Cao and Leskovec, "Coresets for Robust Training of Neural Networks against Noisy
    Labels", NeurIPS 2020.

    >>> central(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 2).index.tolist()
    [1, 2]
    """
    points = checked_points(points)
    check_size(k, len(points))
    far = centrality(points, reference, generator)
    index = far.argsort(stable=True)[:k]
    gain = -far[index]
    assignment = nearest(points, index)
    return Selection(index, cluster_sizes(assignment, k), gain, assignment, float(gain.sum()))


def centrality(points: Tensor, reference: int | None = None, generator: torch.Generator | None = None) -> Tensor:
    """Mean distance of each point to all points, itself among them, or to a random sample; least is central.

    Parameters
    ----------
    points: finite floats, on any device.
    reference: number of random points in the sample, at least 1; None, or n and more, takes all.
    generator: draws the sample; None is a generator of seed 0.

    Shapes
    ------
    points (n, d) -> (n,) float64.
    """
    points = checked_points(points)
    others = points[_draw(len(points), reference, generator)]
    # Distances of 24 bits add up without rounding in a float64, so equal sums tie whatever their order.
    total = [d.float().sum(1, dtype=torch.float64) for d in distance_blocks(points, others)]
    return torch.cat(total) / len(others)


def _draw(n: int, reference: int | None, generator: torch.Generator | None) -> Tensor:
    if reference is not None and reference < 1:
        raise HoldfastError(f"cannot compare with {reference} points; choose at least 1")
    if reference is None or reference >= n:
        return torch.arange(n)
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    return torch.randperm(n, generator=generator, device=generator.device)[:reference].cpu()
