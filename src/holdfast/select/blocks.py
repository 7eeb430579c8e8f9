"""The loops behind large selections, compiled by numba: gains over points that lie in blocks of neighbours.

A block holds WIDTH points as columns, so that one instruction handles many points, and many candidates are
tried while it is in cache. Blocks of one cell share a pivot, and a block is passed over where the triangle
inequality shows that none of its points lies nearer to the candidate than to what serves it now.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import njit

WIDTH = 128
BATCH = 16
SLACK = np.float32(1.0001)  # float32 distances err by some 1e-6: no point is passed over by rounding


@njit(nogil=True, cache=True, fastmath={"contract"})
def squared(tile: Any, point: Any, out: Any) -> None:
    """Squared distances of the columns of a tile (d, WIDTH) to a point (d,), d a multiple of four.

    Four dimensions in one sweep, since each sweep loads and stores the sums.
    """
    out[:] = np.float32(0)
    for dim in range(0, len(point), 4):
        a, b, c, d = tile[dim], tile[dim + 1], tile[dim + 2], tile[dim + 3]
        p, q, r, s = point[dim], point[dim + 1], point[dim + 2], point[dim + 3]
        for i in range(WIDTH):
            e, f, g, h = a[i] - p, b[i] - q, c[i] - r, d[i] - s
            out[i] += (e * e + f * f) + (g * g + h * h)


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _distance(left: Any, right: Any) -> Any:
    total = np.float32(0)
    for dim in range(len(left)):
        total += (left[dim] - right[dim]) ** 2
    return np.sqrt(total)


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _saved(best: Any, square: Any) -> Any:
    """Sum of max(0, best_i - d_i).

    In float64 the sums of float32 distances are exact unless their sizes lie very far apart, so that the
    order of adding, which is left to the machine, does not matter and equal gains tie.
    """
    total = 0.0
    for i in range(WIDTH):
        total += max(0.0, np.float64(best[i]) - np.float64(np.sqrt(square[i])))
    return total


@njit(nogil=True, cache=True)
def gains(
    tiles: Any, best: Any, reach: Any, starts: Any, pivots: Any, points: Any, home: Any, near: Any, out: Any
) -> None:
    """What each of some points (s, d) would take off the distances of the columns near it, into out (s,).

    near[home[c], cell] says whether point c looks at a cell.
    """
    square = np.empty(WIDTH, np.float32)
    away = np.empty(len(points), np.float32)
    out[:] = 0.0
    for cell in range(len(pivots)):
        for c in range(len(points)):
            # An infinite distance is never below the limit.
            away[c] = _distance(points[c], pivots[cell]) if near[home[c], cell] else np.float32(np.inf)
        for block in range(starts[cell], starts[cell + 1]):
            limit = reach[block] * SLACK
            for c in range(len(points)):
                if away[c] < limit:
                    squared(tiles[block], points[c], square)
                    out[c] += _saved(best[block], square)


@njit(nogil=True, cache=True)
def serve(tiles: Any, best: Any, reach: Any, starts: Any, pivots: Any, offset: Any, point: Any, near: Any) -> None:
    """Let a point serve the columns that it lies nearest to, in the cells that it looks at: near (c,)."""
    square = np.empty(WIDTH, np.float32)
    for cell in range(len(pivots)):
        if not near[cell]:
            continue
        away = _distance(point, pivots[cell])
        for block in range(starts[cell], starts[cell + 1]):
            if away >= reach[block] * SLACK:
                continue
            squared(tiles[block], point, square)
            now, off = best[block], offset[block]
            furthest = np.float32(0)
            for i in range(WIDTH):
                now[i] = min(now[i], np.sqrt(square[i]))
                # A column at distance 0 cannot gain: it no longer widens the block, nor does padding.
                furthest = max(furthest, now[i] + off[i] if now[i] > 0 else np.float32(0))
            reach[block] = furthest


@njit(nogil=True, cache=True)
def sampled_steps(
    tiles: Any, best: Any, reach: Any, starts: Any, pivots: Any, offset: Any,
    rows: Any, home: Any, near: Any, left: Any, bound: Any, draws: Any, picked: Any,
) -> None:  # fmt: skip
    """One pick for each row of draws: the best of a random sample of the rows that are left.

    ``left`` holds the rows not picked yet, shuffled; its head becomes the sample. ``bound`` keeps each row's
    last gain, which bounds the present one: a row that cannot win is not tried again.
    """
    size = len(left)
    for step in range(len(draws)):
        sample = min(draws.shape[1], size)
        for q in range(sample):
            other = q + draws[step, q] % (size - q)
            left[q], left[other] = left[other], left[q]
        chosen = left[:sample].copy()
        # Largest bound first: those never tried, all at once; then some at a time, until no bound can win.
        chosen = chosen[np.argsort(-bound[chosen])]
        fresh = np.sum(np.isinf(bound[chosen]))
        top, leader, low = -1.0, -1, 0
        while low < sample and bound[chosen[low]] >= top:
            tried = chosen[low : fresh if low < fresh else low + BATCH]
            found = np.empty(len(tried))
            gains(tiles, best, reach, starts, pivots, rows[tried], home[tried], near, found)
            bound[tried] = found
            for q in range(len(tried)):
                if found[q] > top or (found[q] == top and tried[q] < leader):
                    top, leader = found[q], tried[q]
            low += len(tried)
        picked[step] = leader
        at = 0
        while left[at] != leader:
            at += 1
        size -= 1
        left[at] = left[size]
        serve(tiles, best, reach, starts, pivots, offset, rows[leader], near[home[leader]])


@njit(nogil=True, cache=True)
def lazy_steps(
    tiles: Any, best: Any, reach: Any, starts: Any, pivots: Any, offset: Any, rows: Any, k: Any, alone: Any
) -> Any:
    """Rows picked by exact greedy: each time the one of largest gain, the first of equals.

    Old gains bound new ones, and those at the top of the heap are renewed some at a time. ``alone`` says
    that nothing is served yet: then the bounds before the first pick are worthless and all are renewed.
    """
    n = len(rows)
    bound = np.empty(n)
    home = np.zeros(n, np.int64)
    near = np.ones((1, len(pivots)), np.bool_)
    picked = np.empty(k, np.int64)
    gains(tiles, best, reach, starts, pivots, rows, home, near, bound)
    done = 0
    if alone:
        picked[0] = np.argmax(bound)
        serve(tiles, best, reach, starts, pivots, offset, rows[picked[0]], near[0])
        gains(tiles, best, reach, starts, pivots, rows, home, near, bound)
        done = 1
    heap = [(-bound[j], j) for j in range(n) if done == 0 or j != picked[0]]
    heapq.heapify(heap)
    fresh = np.full(n, done)
    tried = np.empty(BATCH, np.int64)
    found = np.empty(BATCH)
    for step in range(done, k):
        while fresh[heap[0][1]] != step:
            count = 0
            while count < BATCH and len(heap) > 0 and fresh[heap[0][1]] != step:
                tried[count] = heapq.heappop(heap)[1]
                count += 1
            gains(tiles, best, reach, starts, pivots, rows[tried[:count]], home, near, found[:count])
            for q in range(count):
                fresh[tried[q]] = step
                heapq.heappush(heap, (-found[q], tried[q]))
        picked[step] = heapq.heappop(heap)[1]
        serve(tiles, best, reach, starts, pivots, offset, rows[picked[step]], near[0])
    return picked


@njit(nogil=True, cache=True)
def replay(rows: Any, centres: Any, owner: Any, best: Any, gain: Any) -> None:
    """Nearest centre of each row and its distance, and what each centre took off the distances in its turn.

    The first centre's entry is minus the distances that it leaves. Ties go to the earlier centre.
    """
    n, d = rows.shape
    tile = np.empty((d, WIDTH), np.float32)
    square = np.empty(WIDTH, np.float32)
    least = np.empty(WIDTH, np.float32)
    gain[:] = 0.0
    for low in range(0, n, WIDTH):
        size = min(WIDTH, n - low)
        tile[:, :size] = rows[low : low + size].T
        tile[:, size:] = np.float32(0)
        least[:] = np.float32(np.inf)
        least[size:] = np.float32(0)
        owned = owner[low : low + size]
        for j in range(len(centres)):
            squared(tile, centres[j], square)
            nearer = False
            for i in range(WIDTH):
                nearer |= square[i] < least[i]
            if not nearer:
                continue
            for i in range(size):
                if square[i] < least[i]:
                    before = np.float64(np.sqrt(least[i])) if j > 0 else 0.0
                    gain[j] += before - np.float64(np.sqrt(square[i]))
                    least[i] = square[i]
                    owned[i] = j
        best[low : low + size] = np.sqrt(least[:size])


@njit(nogil=True, cache=True)
def all_distances(rows: Any, tiles: Any, out: Any) -> None:
    """Distances from rows (c, d) to the columns of tiles (b, d, WIDTH), into out (c, b * WIDTH)."""
    for block in range(len(tiles)):
        for c in range(len(rows)):
            part = out[c, block * WIDTH : (block + 1) * WIDTH]
            squared(tiles[block], rows[c], part)
            for i in range(WIDTH):
                part[i] = np.sqrt(part[i])


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def saved(best: Any, distance: Any) -> Any:
    """Sum of max(0, best_i - d_i), in float64."""
    total = 0.0
    for i in range(len(best)):
        total += max(0.0, np.float64(best[i]) - np.float64(distance[i]))
    return total


@njit(nogil=True, cache=True)
def sift(distance: Any, best: Any, value: Any, size: Any, picks: Any, target: Any) -> None:
    """Pass a chunk through every sieve: a row stays where it gains its share of what is wanting to half the target.

    distance (c, m) to the reference; best (v, m) and value (v,) of each sieve; picks (v, k) are filled with
    positions in the chunk from size (v,) on.
    """
    k = picks.shape[1]
    for v in range(len(target)):
        reached = best[v]
        for c in range(len(distance)):
            if size[v] == k:
                break
            gain = saved(reached, distance[c])
            if gain > 0 and gain >= (target[v] / 2 - value[v]) / (k - size[v]):
                row = distance[c]
                for i in range(len(reached)):
                    reached[i] = min(reached[i], row[i])
                value[v] += gain
                picks[v, size[v]] = c
                size[v] += 1
