"""Points to select from: what is let in, and what a metric makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import HoldfastError

Points: TypeAlias = "Tensor | np.ndarray[Any, Any]"
Metric = Literal["euclidean", "sqeuclidean", "cosine", "precomputed"]

_BLOCK = 4_000_000  # distances held at once: 32 MB of float64


def checked_points(points: Points) -> Tensor:
    """Points on the CPU, apart from any graph, known to be a finite matrix of float32 or float64."""
    checked = torch.from_numpy(_writable(points)) if isinstance(points, np.ndarray) else points.detach().cpu()
    if checked.ndim != 2 or not checked.is_floating_point() or checked.shape[1] == 0:
        raise HoldfastError(
            f"points to select from must be floats of shape (n, d), not {checked.dtype} {tuple(checked.shape)}"
        )
    if len(checked) == 0:
        raise HoldfastError("there are no points to select from")
    if checked.dtype not in (torch.float32, torch.float64):
        checked = checked.float()
    if not torch.isfinite(checked).all():
        row = int((~torch.isfinite(checked)).any(1).nonzero()[0])
        raise HoldfastError(f"point {row} is NaN or infinite; drop it, or select before training diverges")
    return checked


def check_metric(metric: str) -> None:
    if metric not in get_args(Metric):
        raise HoldfastError(f"metric is one of {', '.join(get_args(Metric))}, not {metric!r}")


def directions(points: Tensor) -> Tensor:
    """Points scaled to length one: half the squared distance between them is the cosine distance."""
    length = points.double().norm(dim=1)
    if (length == 0).any():
        row = int((length == 0).nonzero()[0])
        raise HoldfastError(f"point {row} is zero and has no direction; drop it, or take the Euclidean metric")
    unit: Tensor = (points.double() / length[:, None]).to(points.dtype)
    return unit


def checked_matrix(distances: Tensor) -> Tensor:
    """A precomputed matrix, known to be square, symmetric, without negative entries, and zero on its diagonal."""
    if distances.shape[0] != distances.shape[1]:
        raise HoldfastError(f"precomputed distances must be square, not {tuple(distances.shape)}")
    if (distances < 0).any() or distances.diagonal().any():
        raise HoldfastError("precomputed distances must not be negative, and zero from a point to itself")
    if not torch.allclose(distances, distances.T, rtol=1e-5, atol=0):
        raise HoldfastError("precomputed distances must be symmetric")
    return distances.float()


def count_of(k: float, n: int) -> int:
    """How many of n points: k itself, or the share k of them where it is a fraction, at least one."""
    if isinstance(k, float) and 0 < k < 1:
        return max(1, round(k * n))
    if isinstance(k, float) and k == 1.0:
        return n
    check_size(k, n)
    return int(k)


def check_size(k: float, n: int) -> None:
    """A selection holds at least one point and no more than there are."""
    if k != int(k) or not 1 <= k <= n:
        raise HoldfastError(f"cannot select {k:g} of {n} points; choose a number from 1 to {n}, or a share in (0, 1)")


def distance_blocks(left: Tensor, right: Tensor) -> Iterator[Tensor]:
    """Euclidean distances from some rows of ``left`` at a time to all of ``right``, in float64.

    Sums of squared differences, not inner products: duplicates are at distance exactly 0, and the distance
    from a to b equals that from b to a.
    """
    for rows in torch.split(left.double(), max(1, _BLOCK // len(right))):
        yield torch.cdist(rows, right.double(), compute_mode="donot_use_mm_for_euclid_dist")


def _writable(points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array that torch can share: its strides are not negative, its bytes in native order."""
    if points.dtype.kind != "f":
        raise HoldfastError(f"points to select from must be floats of shape (n, d), not {points.dtype} {points.shape}")
    return np.require(points, requirements=["C", "W", "A"], dtype=points.dtype.newbyteorder("="))
