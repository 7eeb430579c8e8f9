"""The swap phase of k-medoids, compiled by numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from holdfast.select.frame import WIDTH
from holdfast.select.screening import distance, gaps, near_points, reach_of, span, squares


@njit(cache=True, nogil=True, error_model="numpy")
def _two(points: Any, medoid: Any, columns: Any, i: Any, row: Any, slack: Any, squared: Any, d: Any) -> Any:
    """The nearest medoid of a point, its distance, and those of the second nearest; ties to the first."""
    k = len(medoid)
    squares(columns, row, d)
    # Two smallest of the screen, and everything that may be as near as the second of them.
    least, less = np.float32(np.inf), np.float32(np.inf)
    for s in range(k):
        if d[s] < less:
            if d[s] < least:
                least, less = d[s], least
            else:
                less = d[s]
    edge = (np.sqrt(less) * np.float32(1.00002) + 2 * slack) ** 2
    first, second = -1, -1
    best, next_ = np.float32(np.inf), np.float32(np.inf)
    for s in range(k):
        if d[s] <= edge:
            v = distance(points, i, medoid[s], squared)
            if v < best:
                first, best, second, next_ = s, v, first, best
            elif v < next_:
                second, next_ = s, v
    return first, best, second, next_


@njit(cache=True, nogil=True, error_model="numpy")
def swap_medoids(
    points: Any,
    rows: Any,
    tiles: Any,
    centre: Any,
    away: Any,
    slack: Any,
    medoid: Any,
    squared: Any,
    passes: Any,
) -> Any:
    """Swap medoids for other points while that lowers the loss: medoids, what each is worth, owners, distances.

    As in FasterPAM the best medoid to give up is known for each candidate from one look at the points that would change
    sides, which here are only those that lie nearer to the candidate than to their second medoid.
    """
    n, k, blocks = len(points), len(medoid), len(tiles)
    medoid = medoid.copy()
    taken = np.zeros(n, np.bool_)
    columns = np.empty((rows.shape[1], k), np.float32)
    for s in range(k):
        taken[medoid[s]] = True
        columns[:, s] = rows[medoid[s]]
    dk = np.empty(k, np.float32)
    near, other = np.empty(n, np.int32), np.empty(n, np.int32)
    best, second = np.empty(n, np.float32), np.empty(n, np.float32)
    worth = np.zeros(k)
    for i in range(n):
        near[i], best[i], other[i], second[i] = _two(points, medoid, columns, i, rows[i], slack, squared, dk)
        worth[near[i]] += np.float64(second[i]) - np.float64(best[i])
    reach = np.zeros(blocks * WIDTH, np.float32)
    reach[:n] = reach_of(second, slack, squared)
    most, gap = np.empty(blocks, np.float32), np.empty(blocks, np.float32)
    d, out, value = np.empty(WIDTH, np.float32), np.empty(n + WIDTH, np.int32), np.empty(n, np.float32)
    change, touched, counted = np.zeros(k), np.empty(k, np.int32), np.zeros(k, np.bool_)
    served = np.zeros(n, np.int64)
    least = worth.argmin()
    swaps = 0
    for _ in range(passes):
        before = swaps
        span(reach, away, most)
        for j in range(n):
            if taken[j]:
                continue
            gaps(centre, rows[j], slack, gap)
            found = near_points(tiles, rows[j], reach, gap, most, d, out)
            shared, count = 0.0, 0
            for q in range(found):
                i = out[q]
                v = distance(points, i, j, squared)
                value[q] = v
                if v >= second[i]:
                    continue
                s = near[i]
                if not counted[s]:
                    counted[s] = True
                    touched[count] = s
                    count += 1
                if v < best[i]:
                    shared += np.float64(v) - np.float64(best[i])
                    change[s] += np.float64(best[i]) - np.float64(second[i])
                else:
                    change[s] += np.float64(v) - np.float64(second[i])
            leave, total = least, worth[least]
            for q in range(count):
                s = touched[q]
                if worth[s] + change[s] < total:
                    leave, total = s, worth[s] + change[s]
                change[s], counted[s] = 0.0, False
            # A swap must gain more than rounding, or it might be undone for ever.
            if total + shared >= -1e-7 * (total - shared):
                continue
            swaps += 1
            taken[medoid[leave]], taken[j] = False, True
            medoid[leave] = j
            columns[:, leave] = rows[j]
            for q in range(found):
                i, v = out[q], value[q]
                if v < second[i] and near[i] != leave and other[i] != leave:
                    worth[near[i]] -= np.float64(second[i]) - np.float64(best[i])
                    if v < best[i]:
                        near[i], best[i], other[i], second[i] = leave, v, near[i], best[i]
                    else:
                        other[i], second[i] = leave, v
                    worth[near[i]] += np.float64(second[i]) - np.float64(best[i])
                    reach[i] = reach_of(second[i], slack, squared)
                    served[i] = swaps
            for i in range(n):
                # Those that the new medoid now serves bear its number too; only those of the old one look anew.
                if (near[i] == leave or other[i] == leave) and served[i] != swaps:
                    worth[near[i]] -= np.float64(second[i]) - np.float64(best[i])
                    near[i], best[i], other[i], second[i] = _two(
                        points, medoid, columns, i, rows[i], slack, squared, dk
                    )
                    worth[near[i]] += np.float64(second[i]) - np.float64(best[i])
                    reach[i] = reach_of(second[i], slack, squared)
                    b, lane = divmod(i, WIDTH)
                    most[b] = max(most[b], np.sqrt(reach[i]) + away[b, lane])
            least = worth.argmin()
        if swaps == before:
            break
    return medoid, worth, near, best
