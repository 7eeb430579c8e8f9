"""The loops of facility location, compiled by numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


def lazy_greedy(distances: np.ndarray[Any, Any], k: int) -> tuple[np.ndarray[Any, Any], ...]:
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
