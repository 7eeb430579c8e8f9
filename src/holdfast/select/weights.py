"""How many examples each selected one stands for."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.select.points import Points, checked_points, distance_blocks
from holdfast.select.selection import cluster_sizes, like


def cluster_weights(points: Points, index: Tensor) -> Tensor:
    """Number of points nearest to each selected point: r_j = |V_j|, CRUST Algorithm 1.

    A selected point always counts for itself, also where a duplicate was selected before it; other ties go
    to the point selected first.

    Parameters
    ----------
    points: finite floats.
    index: distinct rows of ``points``, at least one.

    Shapes
    ------
    points (n, d), index (k,) -> (k,) float32, summing to n, each at least 1.

    Reference: Mirzasoleiman, Cao and Leskovec, "Coresets for Robust Training of Neural Networks against Noisy
    Labels", NeurIPS 2020.

    >>> cluster_weights(torch.tensor([[0.0], [1.0], [9.0]]), torch.tensor([0, 2])).tolist()
    [2.0, 1.0]
    """
    return like(cluster_sizes(_nearest(checked_points(points), index), len(index)), points)


def radius_weights(points: Points, index: Tensor, radius: float) -> Tensor:
    """Number of points closer than a radius to each selected point, itself included: |{i : d_ij < r}|.

    Parameters
    ----------
    points: finite floats.
    index: rows of ``points``, at least one.
    radius: positive; the authors of CRUST use 2.

    Shapes
    ------
    points (n, d), index (k,) -> (k,) float32, each between 1 and n.

    Differs from the paper: this is the rule of the authors' code, where the paper has cluster sizes.
    """
    if not radius > 0:
        raise HoldfastError(f"a radius must be positive, not {radius:g}")
    checked = checked_points(points)
    centres = checked[_checked_index(index, len(checked))]
    counts = [(block < radius).sum(1) for block in distance_blocks(centres, checked)]
    return like(torch.cat(counts).float(), points)


def nearest(points: Points, index: Tensor) -> Tensor:
    """Position in ``index`` of the selected point nearest to each point.

    A selected point is nearest to itself; other ties go to the point selected first.

    Parameters
    ----------
    points: finite floats.
    index: distinct rows of ``points``, at least one.

    Shapes
    ------
    points (n, d), index (k,) -> (n,) int64.
    """
    return like(_nearest(checked_points(points), index), points)


def _nearest(points: Tensor, index: Tensor) -> Tensor:
    index = _checked_index(index, len(points))
    owner = torch.cat([block.argmin(1) for block in distance_blocks(points, points[index])])
    owner[index] = torch.arange(len(index))
    return owner


def _checked_index(index: Tensor, n: int) -> Tensor:
    index = torch.as_tensor(index).detach().cpu().long()
    if len(index) == 0 or int(index.min()) < 0 or int(index.max()) >= n:
        raise HoldfastError(f"selected rows must be some of 0 to {n - 1}, found {index[:5].tolist()}")
    return index
