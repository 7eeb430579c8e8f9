"""Facility location by greedy selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
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
    picked, gain, owner = _lazy_greedy(distances, k)
    index = torch.from_numpy(picked)
    assignment = torch.from_numpy(owner)
    assignment[index] = torch.arange(k)
    return Selection(index, cluster_sizes(assignment, k), torch.from_numpy(gain), assignment, float(gain.sum()))


def _lazy_greedy(distances: np.ndarray[Any, Any], k: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Picks, their gains and the position of the nearest pick, from a symmetric distance matrix."""
    best = np.full(len(distances), distances.max(), dtype=np.float32)
    bound = _all_gains(distances, best)
    heap = np.argsort(-bound, kind="stable")  # a sorted list is a heap
    picked, gain, owner = _pick(distances, best, bound, heap, k)
    return picked, gain, owner


@njit(cache=True)
def _gain(row: Any, best: Any) -> Any:
    """Sum of max(0, best_i - d_i): how much nearer the points come by a new pick.

    Terms are added in one fixed order, so that a gain never rises from round to round, not even by
    rounding. Four running sums only spare the wait for one another. np.float64, since float() of a float32
    remains one in numba: in float64 these sums are exact, and equal gains tie.
    """
    a = b = c = d = 0.0
    n = len(row)
    whole = n - n % 4
    for i in range(0, whole, 4):
        a += max(0.0, np.float64(best[i]) - np.float64(row[i]))
        b += max(0.0, np.float64(best[i + 1]) - np.float64(row[i + 1]))
        c += max(0.0, np.float64(best[i + 2]) - np.float64(row[i + 2]))
        d += max(0.0, np.float64(best[i + 3]) - np.float64(row[i + 3]))
    for i in range(whole, n):
        a += max(0.0, np.float64(best[i]) - np.float64(row[i]))
    return (a + b) + (c + d)


@njit(cache=True)
def _all_gains(distances: Any, best: Any) -> Any:
    gains = np.empty(len(distances))
    for j in range(len(distances)):
        gains[j] = _gain(distances[j], best)
    return gains


@njit(cache=True)
def _sift_down(heap: Any, size: Any, bound: Any) -> None:
    """Let the top of the heap sink until no child has a larger bound, or an equal one and a lower index."""
    at, item = 0, heap[0]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and _before(heap[other], heap[child], bound):
            child = other
        if not _before(heap[child], item, bound):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = item


@njit(cache=True)
def _before(i: Any, j: Any, bound: Any) -> Any:
    return bound[i] > bound[j] or (bound[i] == bound[j] and i < j)


@njit(cache=True)
def _pick(distances: Any, best: Any, bound: Any, heap: Any, k: Any) -> Any:
    n = len(distances)
    size = n
    fresh = np.zeros(n, dtype=np.int64)
    picked = np.empty(k, dtype=np.int64)
    gain = np.empty(k)
    owner = np.zeros(n, dtype=np.int64)
    for step in range(k):
        while fresh[heap[0]] != step:
            j = heap[0]
            bound[j] = _gain(distances[j], best)
            fresh[j] = step
            _sift_down(heap, size, bound)
        j = heap[0]
        picked[step] = j
        gain[step] = bound[j]
        size -= 1
        heap[0] = heap[size]
        _sift_down(heap, size, bound)
        for i in range(n):
            if distances[j, i] < best[i]:
                best[i] = distances[j, i]
                owner[i] = step
    return picked, gain, owner
