"""The loops of facility location, compiled by numba.

Distances that decide are computed in float64 and rounded to float32; sums of them are float64, where they are exact, so
that equal gains tie whatever the order of summation. Distances that only rule candidates out are float32 ones along the
leading principal axes: never larger than the true ones but for rounding, which ``slack`` covers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from holdfast.select.frame import BLOCK

CHUNK = 32
"""Points tested for any hit together."""
EARLY = 8
"""Picks before lists of near points are kept: until then each would hold a large share of all points."""
LONG = 1024
"""Longest list that is kept; a longer one would be short soon."""
_OVER = np.float32(1.00001)
_UNDER = np.float32(0.99999)
_LOOSE = {"reassoc", "contract", "nsz", "nnan", "ninf", "arcp"}


@njit(cache=True, nogil=True, error_model="numpy")
def distance(points: Any, i: Any, j: Any, squared: Any) -> Any:
    """The distance that decides, of two rows of (n, d)."""
    a, b = points[i], points[j]
    total = 0.0
    for axis in range(len(a)):
        t = np.float64(a[axis]) - np.float64(b[axis])
        total += t * t
    return np.float32(total) if squared else np.float32(np.sqrt(total))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _square(x: Any, low: Any, count: Any, v: Any, out: Any) -> None:
    """Squared distances of columns low to low + count of (r, n) to v; four axes in one sweep spare memory traffic."""
    axes = x.shape[0]
    a = out[:count]
    for i in range(count):
        a[i] = np.float32(0)
    axis = 0
    while axis + 4 <= axes:
        # Slices, not x[axis, low + i]: only these loops become vector instructions.
        r0, r1 = x[axis, low : low + count], x[axis + 1, low : low + count]
        r2, r3 = x[axis + 2, low : low + count], x[axis + 3, low : low + count]
        v0, v1, v2, v3 = v[axis], v[axis + 1], v[axis + 2], v[axis + 3]
        for i in range(count):
            t0, t1, t2, t3 = r0[i] - v0, r1[i] - v1, r2[i] - v2, r3[i] - v3
            a[i] += (t0 * t0 + t1 * t1) + (t2 * t2 + t3 * t3)
        axis += 4
    while axis < axes:
        r0, v0 = x[axis, low : low + count], v[axis]
        for i in range(count):
            t0 = r0[i] - v0
            a[i] += t0 * t0
        axis += 1


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_LOOSE)
def _sums(x: Any, rows: Any, best: Any, slack: Any, squared: Any) -> Any:
    """Of each point: no more than its summed distance, and no less than the gain of adding it to ``best``.

    Both in one sweep over half of the pairs; and a point of the widest pair.
    """
    n = x.shape[1]
    far, gain = np.zeros(n), np.zeros(n)
    d = np.empty(BLOCK, np.float32)
    zero = np.float32(0)
    widest, edge = zero, 0
    for j in range(n):
        s, g = 0.0, 0.0
        mine, wide = best[j], zero
        for low in range(j + 1, n, BLOCK):
            count = min(BLOCK, n - low)
            _square(x, low, count, rows[j], d)
            theirs, f, h = best[low : low + count], far[low : low + count], gain[low : low + count]
            p: Any = zero
            q: Any = zero
            for i in range(count):
                t = np.sqrt(d[i]) * _UNDER - slack
                t = t if t > zero else zero
                if squared:
                    t = t * t
                p += t
                wide = t if t > wide else wide
                f[i] += t
                u = theirs[i] - t
                q += u if u > zero else zero
                u = mine - t
                h[i] += u if u > zero else zero
            s += p
            g += q
        far[j] += s
        gain[j] += g + mine
        if wide > widest:
            widest, edge = wide, j
    return far, gain, edge


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_LOOSE)
def _upper(x: Any, v: Any, best: Any, slack: Any, squared: Any, d: Any) -> Any:
    """At most this is the gain of a point at v."""
    n = x.shape[1]
    total, zero = 0.0, np.float32(0)
    for low in range(0, n, BLOCK):
        count = min(BLOCK, n - low)
        _square(x, low, count, v, d)
        b = best[low : low + count]
        p: Any = zero
        for i in range(count):
            t = np.sqrt(d[i]) * _UNDER - slack
            t = t if t > zero else zero
            if squared:
                t = t * t
            u = b[i] - t
            p += u if u > zero else zero
        total += p
    return total * 1.00001


@njit(cache=True, nogil=True, error_model="numpy")
def _near(x: Any, v: Any, reach: Any, near: Any, radius: Any, most: Any, d: Any, out: Any) -> Any:
    """Points that may lie nearer to v than to what is chosen; blocks too far away are passed over whole."""
    n = x.shape[1]
    found = 0
    for block in range(len(radius)):
        if near[block] > radius[block] + most[block]:
            continue
        low = block * BLOCK
        count = min(BLOCK, n - low)
        _square(x, low, count, v, d)
        r = reach[low : low + count]
        for start in range(0, count, CHUNK):
            stop = min(CHUNK, count - start)
            dd, rr = d[start : start + stop], r[start : start + stop]
            hits = 0
            for i in range(stop):
                hits += dd[i] < rr[i]
            if hits:
                for i in range(stop):
                    out[found] = low + start + i
                    found += dd[i] < rr[i]
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _gain(points: Any, j: Any, best: Any, squared: Any) -> Any:
    total = 0.0
    for i in range(len(best)):
        total += max(0.0, np.float64(best[i]) - np.float64(distance(points, i, j, squared)))
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _reach(best: Any, slack: Any, squared: Any) -> Any:
    """The square of how far a point may lie from a candidate and still gain by it."""
    d = (np.sqrt(best) if squared else best) * _OVER + slack
    return d * d


@njit(cache=True, nogil=True, error_model="numpy")
def _medoid(points: Any, far: Any, name: Any, squared: Any) -> Any:
    """The point of least summed distance, from lower bounds: in their order until none can be less."""
    n = len(far)
    first, least = -1, np.inf
    for j in np.argsort(far):
        if first >= 0 and far[j] * 0.9999 > least:
            break
        total = 0.0
        for i in range(n):
            total += np.float64(distance(points, i, j, squared))
        if total < least or (total == least and name[j] < name[first]):
            first, least = j, total
    return first


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
    x: Any,
    name: Any,
    centre: Any,
    radius: Any,
    slack: Any,
    guess: Any,
    k: Any,
    squared: Any,
    done: Any,
) -> Any:
    """Greedy facility location: picks, gains, position of the nearest pick and distance to it.

    A candidate's gain only falls as more is chosen, so an old one is a bound and a heap says whose to renew. The points
    that gain by a candidate only become fewer, so each candidate keeps the list of them from its first renewal on; as
    the ball of a point holds about n / t others once t are chosen, all lists together are short.

    points (n, d) in an order in which blocks are compact, name (n,) their original numbers; rows (n, r) and x (r, n)
    their coordinates along the leading axes; centre (r, blocks) and radius (blocks,) of the blocks; guess: a point near
    the middle; done (1,) counts the picks for whoever watches.
    """
    n, blocks = len(points), len(radius)
    best = np.empty(n, np.float32)
    for i in range(n):
        best[i] = distance(points, i, guess, squared)
    far, bound, edge = _sums(x, rows, best, slack, squared)
    first = _medoid(points, far, name, squared)
    rise, widest, loss = 0.0, np.float32(0), 0.0
    for i in range(n):
        d = distance(points, i, first, squared)
        rise += max(0.0, np.float64(d) - np.float64(best[i]))
        best[i] = d
        loss += np.float64(d)
        widest = max(widest, distance(points, i, edge, squared))
    # What a point adds to the first pick is at most what it adds to the guess, plus what the guess is better by.
    bound = bound * 1.00001 + rise
    reach = _reach(best, slack, squared)
    picked, gain, owner = np.empty(k, np.int64), np.empty(k), np.zeros(n, np.int64)
    picked[0], gain[0] = first, n * np.float64(widest) - loss
    size = n - 1
    heap = _heap(size, first, bound, name)
    d = np.empty(BLOCK, np.float32)
    out = np.empty(n + CHUNK, np.int32)
    near, most = np.empty(blocks, np.float32), np.empty(blocks, np.float32)
    fresh, sure = np.zeros(n, np.int32), np.zeros(n, np.bool_)
    start, length = np.full(n, -1), np.zeros(n, np.int32)
    made, built = np.empty(n, np.int32), 0
    index, value, top = np.empty(16 * n + LONG, np.int32), np.empty(16 * n + LONG, np.float32), 0
    renew = EARLY
    for step in range(1, k):
        if step >= renew:
            for b in range(blocks):
                most[b] = np.sqrt(reach[b * BLOCK : (b + 1) * BLOCK].max()) + slack
            renew = step + max(1, step // 8)
        while True:
            j = heap[0]
            if fresh[j] == step and sure[j]:
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
                bound[j], sure[j] = total, True
            elif step < EARLY:
                if fresh[j] == step:
                    bound[j], sure[j] = _gain(points, j, best, squared), True
                else:
                    bound[j], sure[j] = min(bound[j], _upper(x, rows[j], best, slack, squared, d)), False
            else:
                _square(centre, 0, blocks, rows[j], near)
                for b in range(blocks):
                    near[b] = np.sqrt(near[b]) * _UNDER - slack
                found = _near(x, rows[j], reach, near, radius, most, d, out)
                if found <= LONG and top + found > len(index):
                    index, value, top = _room(made, built, start, length, index, value, top, found)
                total, at = 0.0, top
                for q in range(found):
                    i = out[q]
                    v = distance(points, i, j, squared)
                    if v < best[i]:
                        total += np.float64(best[i]) - np.float64(v)
                        if found <= LONG:
                            index[at], value[at] = i, v
                        at += 1
                if found <= LONG:
                    start[j], length[j] = top, at - top
                    top = at
                    made[built] = j
                    built += 1
                bound[j], sure[j] = total, True
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
                    reach[i] = _reach(v, slack, squared)
            length[j] = 0
        else:
            for i in range(n):
                v = distance(points, i, j, squared)
                if v < best[i]:
                    best[i], owner[i] = v, step
                    reach[i] = _reach(v, slack, squared)
    return picked, gain, owner, best


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
