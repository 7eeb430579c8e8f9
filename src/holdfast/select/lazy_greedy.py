"""Exact greedy facility location, compiled by numba: by lists of near points, or by a matrix of distances.

Sums of float32 distances are float64, where they are exact, so that equal gains tie whatever the order of summation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from holdfast.select.frame import WIDTH
from holdfast.select.screening import LOOSE, UNDER, distance, gain_bound, gaps, near_points, reach_of, span, squares

LONG = 1024
"""Longest list that is kept; a longer one would be short soon."""
STALE = 4
"""A candidate gets its list when it is looked at again before the picks are this many times those of the last look."""


@njit(cache=True, nogil=True, error_model="numpy", fastmath=LOOSE)
def _survey(
    rows: Any, tiles: Any, centre: Any, radius: Any, best: Any, reach: Any, most: Any, slack: Any, squared: Any
) -> Any:
    """Of each point: no more than its summed distance, no less than its gain, no less than its largest distance.

    Sums and largest distances come from the centres alone: the mean distance to the points of a block is at least the
    distance to their mean. Gains come from half of the pairs, both ways at once, without blocks that neither gain by
    the point nor bring it a gain.
    """
    n, blocks = len(rows), len(tiles)
    zero = np.float32(0)
    low, gain, wide = np.zeros(n), np.zeros(blocks * WIDTH), np.zeros(n)
    gap, count = np.empty(blocks, np.float32), np.full(blocks, np.float32(WIDTH))
    d = np.empty(WIDTH, np.float32)
    count[-1] = n - (blocks - 1) * WIDTH
    for j in range(n):
        gaps(centre, rows[j], slack, gap)
        for b in range(blocks):
            g = max(gap[b], zero)
            low[j] += count[b] * (g * g if squared else g)
            wide[j] = max(wide[j], gap[b] + radius[b])
        own_best, root, own = best[j], np.sqrt(reach[j]), j // WIDTH
        total = 0.0
        for b in range(own, blocks):
            if gap[b] > most[b] and gap[b] - radius[b] > root:
                continue
            squares(tiles[b], rows[j], d)
            h = best[b * WIDTH : b * WIDTH + WIDTH]
            theirs = gain[b * WIDTH : b * WIDTH + WIDTH]
            other = own_best if b > own else zero  # each point looks at the whole of its own block
            p: Any = zero
            for i in range(WIDTH):
                t = np.sqrt(d[i]) * UNDER - slack
                t = t if t > zero else zero
                if squared:
                    t = t * t
                u, w = h[i] - t, other - t
                p += u if u > zero else zero
                theirs[i] += w if w > zero else zero
            total += p
        gain[j] += total
    return low, gain[:n] * 1.00001, wide


@njit(cache=True, nogil=True, error_model="numpy")
def _medoid(points: Any, low: Any, name: Any, squared: Any) -> Any:
    """The point of least summed distance, from lower bounds: in their order until none can be less."""
    n = len(low)
    first, least = -1, np.inf
    for j in np.argsort(low):
        if first >= 0 and low[j] * 0.9999 > least:
            break
        total = 0.0
        for i in range(n):
            total += np.float64(distance(points, i, j, squared))
        if total < least or (total == least and name[j] < name[first]):
            first, least = j, total
    return first, least


@njit(cache=True, nogil=True, error_model="numpy")
def _widest(points: Any, rows: Any, tiles: Any, centre: Any, radius: Any, wide: Any, slack: Any, squared: Any) -> Any:
    """The largest distance, from upper bounds of each point's; those of the remotest points come first."""
    n, blocks = len(rows), len(tiles)
    gap, d = np.empty(blocks, np.float32), np.empty(WIDTH, np.float32)
    widest, edge = np.float32(0), np.float32(0)
    for j in np.argsort(-wide):
        if wide[j] < edge:
            break
        gaps(centre, rows[j], slack, gap)
        for b in range(blocks):
            if gap[b] + radius[b] < edge:
                continue
            squares(tiles[b], rows[j], d)
            if d.max() < edge * edge:
                continue
            for i in range(b * WIDTH, min(n, b * WIDTH + WIDTH)):
                widest = max(widest, distance(points, i, j, squared))
            edge = (np.sqrt(widest) if squared else widest) * UNDER - 4 * slack
    return widest


@njit(cache=True, nogil=True, error_model="numpy")
def _before(i: Any, j: Any, bound: Any, name: Any) -> Any:
    return bound[i] > bound[j] or (bound[i] == bound[j] and name[i] < name[j])


@njit(cache=True, nogil=True, error_model="numpy")
def _sift(heap: Any, at: Any, size: Any, bound: Any, name: Any) -> None:
    """Let an item of the heap sink until no child comes before it."""
    item = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _before(heap[child + 1], heap[child], bound, name):
            child += 1
        if not _before(heap[child], item, bound, name):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = item


@njit(cache=True, nogil=True, error_model="numpy")
def _heap(size: Any, skip: Any, bound: Any, name: Any) -> Any:
    heap = np.empty(size, np.int32)
    at = 0
    for j in range(len(bound)):
        if j != skip:
            heap[at] = j
            at += 1
    for k in range(size // 2 - 1, -1, -1):
        _sift(heap, k, size, bound, name)
    return heap


@njit(cache=True, nogil=True, error_model="numpy")
def _room(made: Any, built: Any, start: Any, length: Any, index: Any, value: Any, top: Any, need: Any) -> Any:
    """Move the lists together, which have shrunk, and grow the pool if that is not enough."""
    at = 0
    for k in range(built):
        j = made[k]
        for p in range(length[j]):
            index[at + p] = index[start[j] + p]
            value[at + p] = value[start[j] + p]
        start[j] = at
        at += length[j]
    if at + need > 0.75 * len(index):
        size = int(1.5 * len(index)) + need
        wider, further = np.empty(size, np.int32), np.empty(size, np.float32)
        wider[:at], further[:at] = index[:at], value[:at]
        return wider, further, at
    return index, value, at


@njit(cache=True, nogil=True, error_model="numpy")
def lazy_lists(
    points: Any,
    rows: Any,
    tiles: Any,
    name: Any,
    centre: Any,
    away: Any,
    slack: Any,
    guess: Any,
    k: Any,
    squared: Any,
    done: Any,
) -> Any:
    """Greedy facility location: picks, gains, position of the nearest pick and distance to it.

    A candidate's gain only falls as more is chosen, so an old one is a bound and a heap says whose to renew: from
    float32 distances as long as renewing it takes much off, then exactly. The points that gain by a candidate only
    become fewer, so each candidate keeps the list of them; as the ball of a point holds about n / t others once t are
    chosen, all lists together are short.

    points (n, d) in an order in which blocks are compact, name (n,) their original numbers; rows (n, r) and tiles
    (blocks, r, 64) their coordinates along the principal axes; centre (r, blocks) of the blocks, away (blocks, 64) from
    it; guess: a point near the middle; done (1,) counts the picks for whoever watches.
    """
    n, blocks = len(points), len(tiles)
    best, reach = np.zeros(blocks * WIDTH, np.float32), np.zeros(blocks * WIDTH, np.float32)
    most, gap, d = np.empty(blocks, np.float32), np.empty(blocks, np.float32), np.empty(WIDTH, np.float32)
    for i in range(n):
        best[i] = distance(points, i, guess, squared)
        reach[i] = reach_of(best[i], slack, squared)
    span(reach, away, most)
    radius = np.empty(blocks, np.float32)
    for b in range(blocks):
        radius[b] = away[b].max()
    low, bound, wide = _survey(rows, tiles, centre, radius, best, reach, most, slack, squared)
    first, loss = _medoid(points, low, name, squared)
    rise = 0.0
    for i in range(n):
        v = distance(points, i, first, squared)
        rise += max(0.0, np.float64(v) - np.float64(best[i]))
        best[i] = v
        reach[i] = reach_of(v, slack, squared)
    # What a point adds to the first pick is at most what it adds to the guess, plus what the guess is better by.
    bound += rise
    picked, gain, owner = np.empty(k, np.int64), np.empty(k), np.zeros(n, np.int64)
    widest = _widest(points, rows, tiles, centre, radius, wide, slack, squared)
    picked[0], gain[0] = first, n * np.float64(widest) - loss
    size = n - 1
    heap = _heap(size, first, bound, name)
    out = np.empty(n + WIDTH, np.int32)
    fresh, exact = np.ones(n, np.int32), np.zeros(n, np.bool_)
    start, length = np.full(n, -1), np.zeros(n, np.int32)
    made, built = np.empty(n, np.int32), 0
    index, value, top = np.empty(16 * n + LONG, np.int32), np.empty(16 * n + LONG, np.float32), 0
    renew = 1
    for step in range(1, k):
        if step >= renew:
            span(reach, away, most)
            renew = step + max(1, step // 8)
        while True:
            j = heap[0]
            if fresh[j] == step and exact[j]:
                break
            if start[j] >= 0:
                total, at = 0.0, start[j]
                for p in range(start[j], start[j] + length[j]):
                    i, v = index[p], value[p]
                    if v < best[i]:
                        total += np.float64(best[i]) - np.float64(v)
                        index[at], value[at] = i, v
                        at += 1
                length[j] = at - start[j]
                bound[j], exact[j] = total, True
            else:
                gaps(centre, rows[j], slack, gap)
                found = LONG + 1
                if STALE * fresh[j] >= step:
                    found = near_points(tiles, rows[j], reach, gap, most, d, out)
                kept = found <= LONG
                if not kept and fresh[j] < step:
                    upper = gain_bound(tiles, rows[j], gap, most, best, slack, squared, d)
                    bound[j], exact[j] = min(bound[j], upper), False
                else:
                    if kept and top + found > len(index):
                        index, value, top = _room(made, built, start, length, index, value, top, found)
                    total, at = 0.0, top
                    for q in range(found):
                        i = out[q]
                        v = distance(points, i, j, squared)
                        if v < best[i]:
                            total += np.float64(best[i]) - np.float64(v)
                            if kept:
                                index[at], value[at] = i, v
                            at += 1
                    if kept:
                        start[j], length[j] = top, at - top
                        top = at
                        made[built] = j
                        built += 1
                    bound[j], exact[j] = total, True
            fresh[j] = step
            _sift(heap, 0, size, bound, name)
        picked[step], gain[step] = j, bound[j]
        done[0] = step
        size -= 1
        heap[0] = heap[size]
        _sift(heap, 0, size, bound, name)
        if start[j] >= 0:
            for p in range(start[j], start[j] + length[j]):
                i, v = index[p], value[p]
                if v < best[i]:
                    best[i], owner[i] = v, step
                    reach[i] = reach_of(v, slack, squared)
            length[j] = 0
        else:
            for i in range(n):
                v = distance(points, i, j, squared)
                if v < best[i]:
                    best[i], owner[i] = v, step
                    reach[i] = reach_of(v, slack, squared)
    return picked, gain, owner, best[:n]


@njit(cache=True, nogil=True, error_model="numpy")
def _row_gain(row: Any, best: Any) -> Any:
    total = 0.0
    for i in range(len(row)):
        total += max(0.0, np.float64(best[i]) - np.float64(row[i]))
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def lazy_matrix(distances: Any, k: Any, done: Any) -> Any:
    """The same from a symmetric (n, n) matrix of float32: faster for few points, or for many axes."""
    n = len(distances)
    name = np.arange(n)
    widest, first, least = np.float32(0), 0, np.inf
    for j in range(n):
        total = 0.0
        for i in range(n):
            total += np.float64(distances[j, i])
        widest = max(widest, distances[j].max())
        if total < least:
            first, least = j, total
    best = distances[first].copy()
    bound = np.empty(n)
    for j in range(n):
        bound[j] = _row_gain(distances[j], best)
    picked, gain, owner = np.empty(k, np.int64), np.empty(k), np.zeros(n, np.int64)
    picked[0], gain[0] = first, n * np.float64(widest) - least
    size = n - 1
    heap = _heap(size, first, bound, name)
    fresh = np.ones(n, np.int32)
    for step in range(1, k):
        while fresh[heap[0]] != step:
            j = heap[0]
            bound[j] = _row_gain(distances[j], best)
            fresh[j] = step
            _sift(heap, 0, size, bound, name)
        j = heap[0]
        picked[step], gain[step] = j, bound[j]
        done[0] = step
        size -= 1
        heap[0] = heap[size]
        _sift(heap, 0, size, bound, name)
        for i in range(n):
            if distances[j, i] < best[i]:
                best[i], owner[i] = distances[j, i], step
    return picked, gain, owner, best
