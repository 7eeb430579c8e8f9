"""The local intrinsic dimension of points: how fast their number grows around each of them."""

from __future__ import annotations

import torch
from torch import Tensor


def local_dimension(points: Tensor, neighbours: int = 20) -> Tensor:
    """``-(1/k sum_j log(r_j / r_k))^-1`` with ``r_1 <= ... <= r_k`` the distances to the nearest other points.

    Infinite where all ``r_j`` are equal, zero where a point has a twin. k is lowered to the number of other points.

    Shape: (B, d) -> (B,) in double precision.

    Reference: Amsaleg et al., "Estimating Local Intrinsic Dimensionality", KDD 2015, the estimator of maximum
    likelihood.

    >>> local_dimension(torch.tensor([[0.0], [1.0], [3.0], [7.0]]), 3)
    tensor([1.0740, 1.0379, 3.0586, 4.2031], dtype=torch.float64)
    """
    points = points.double()
    far = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    far.fill_diagonal_(torch.inf)
    near = far.sort(1).values[:, : min(neighbours, len(points) - 1)]
    # Twins of all neighbours leave 0 / 0: no dimension can be read off there either.
    growth = (near / near[:, -1:]).log().mean(1).nan_to_num(nan=0.0, neginf=-torch.inf)
    return torch.where(growth < 0, -1 / growth, torch.inf)
