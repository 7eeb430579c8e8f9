"""What a selection is, and how many examples each selected one stands for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.errors import HoldfastError

_BLOCK = 4_000_000  # distances held at once: 32 MB of float64


class Selection(NamedTuple):
    """Points chosen to stand for all n points.

    Shapes
    ------
    index: (k,) int64, chosen points in the order of their choice.
    weight: (k,) float32, number of points each chosen one stands for; sums to n.
    gain: (k,) float64, what each choice added to the objective.
    assignment: (n,) int64, position in ``index`` of the nearest chosen point.
    objective: the sum of the gains.
    """

    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a selection
    weight: Tensor
    gain: Tensor
    assignment: Tensor
    objective: float


def cluster_weights(points: Tensor, index: Tensor) -> Tensor:
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
    return cluster_sizes(nearest(points, index), len(index))


def radius_weights(points: Tensor, index: Tensor, radius: float) -> Tensor:
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
    points = checked_points(points)
    centres = points[_checked_index(index, len(points))]
    counts = [(block < radius).sum(1) for block in distance_blocks(centres, points)]
    return torch.cat(counts).float()


def nearest(points: Tensor, index: Tensor) -> Tensor:
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
    points = checked_points(points)
    index = _checked_index(index, len(points))
    owner = torch.cat([block.argmin(1) for block in distance_blocks(points, points[index])])
    owner[index] = torch.arange(len(index))
    return owner


def cluster_sizes(assignment: Tensor, k: int) -> Tensor:
    """How often each of k positions is assigned; (k,) float32."""
    return torch.bincount(assignment, minlength=k).float()


def distance_blocks(left: Tensor, right: Tensor) -> Iterator[Tensor]:
    """Euclidean distances from some rows of ``left`` at a time to all of ``right``, in float64.

    Sums of squared differences, not inner products: duplicates are at distance exactly 0, and the distance
    from a to b equals that from b to a.
    """
    for rows in torch.split(left.double(), max(1, _BLOCK // len(right))):
        yield torch.cdist(rows, right.double(), compute_mode="donot_use_mm_for_euclid_dist")


def checked_points(points: Tensor) -> Tensor:
    """Points on the CPU, apart from any graph, known to be a finite float matrix."""
    if points.ndim != 2 or not points.is_floating_point():
        raise HoldfastError(
            f"points to select from must be floats of shape (n, d), not {points.dtype} {tuple(points.shape)}"
        )
    points = points.detach().cpu()
    if not torch.isfinite(points).all():
        row = int((~torch.isfinite(points)).any(1).nonzero()[0])
        raise HoldfastError(f"point {row} is NaN or infinite; select before training diverges")
    return points


def check_size(k: int, n: int) -> None:
    """A selection holds at least one point and no more than there are."""
    if not 1 <= k <= n:
        raise HoldfastError(f"cannot select {k} of {n} points; choose a number from 1 to {n}")


def _checked_index(index: Tensor, n: int) -> Tensor:
    index = index.detach().cpu().long()
    if len(index) == 0 or int(index.min()) < 0 or int(index.max()) >= n:
        raise HoldfastError(f"selected rows must be some of 0 to {n - 1}, found {index[:5].tolist()}")
    return index
