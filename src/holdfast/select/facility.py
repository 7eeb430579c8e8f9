"""Facility location by greedy selection."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.select.weights import Selection, check_size, checked_points, cluster_sizes, distance_blocks

LIMIT = 20_000
"""Most points whose distance matrix is built (1.6 GB)."""


def facility_location(points: Tensor, k: int) -> Selection:
    """Greedy medoids: each choice is the point that adds most to F(S) = sum_i max_{j in S} (d0 - d_ij).

    d_ij is the Euclidean distance, rounded to float32, and d0 the largest of them. The value reached is at
    least 1 - 1/e of the best one. Ties go to the lowest index. Gains are evaluated lazily: as F is
    submodular, an old gain bounds the present one from above, and the picks are those of evaluating all.

    Parameters
    ----------
    points: finite floats, on any device; at most 20,000, as the n² distances are held in memory.
    k: from 1 to n.

    Shapes
    ------
    points (n, d) -> Selection of k; ``gain`` never increases, ``objective`` is F and ``weight`` the cluster
    size. A chosen point is assigned to itself; other ties go to the point chosen first.

    References
    ----------
    Mirzasoleiman, Cao and Leskovec, "Coresets for Robust Training of Neural Networks against Noisy Labels",
    NeurIPS 2020, Algorithm 1. Minoux, "Accelerated greedy algorithms for maximizing submodular set
    functions", 1978.

    >>> facility_location(torch.tensor([[0.0], [1.0], [9.0]]), 2).index.tolist()
    [1, 2]
    """
    points = checked_points(points)
    n = len(points)
    check_size(k, n)
    if n > LIMIT:
        raise HoldfastError(
            f"facility location holds all distances of {n} points, of which it takes at most {LIMIT}; "
            "select class by class, from a random part, or by centrality"
        )
    distances = torch.cat([block.float() for block in distance_blocks(points, points)]).numpy()
    from holdfast.select.kernels import lazy_greedy  # numba takes a while to import, and most runs never come here

    picked, gain, owner = lazy_greedy(distances, k)
    index = torch.from_numpy(picked)
    assignment = torch.from_numpy(owner)
    assignment[index] = torch.arange(k)
    return Selection(index, cluster_sizes(assignment, k), torch.from_numpy(gain), assignment, float(gain.sum()))
