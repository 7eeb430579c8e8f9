"""Distances between points and the screens that rule most pairs out, compiled by numba.

Distances that decide are computed in float64 and rounded to float32. Screens take float32 distances along the leading
principal axes: never larger than the true ones but for rounding, which ``slack`` covers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from holdfast.select.frame import WIDTH

OVER = np.float32(1.00001)
UNDER = np.float32(0.99999)
LOOSE = {"reassoc", "contract", "nsz", "nnan", "ninf", "arcp"}
"""What the compiler may do to the arithmetic of a screen."""


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def distance(points: Any, i: Any, j: Any, squared: Any) -> Any:
    """The distance that decides, of two rows of (n, d)."""
    a, b = points[i], points[j]
    total = 0.0
    for axis in range(len(a)):
        t = np.float64(a[axis]) - np.float64(b[axis])
        total += t * t
    return np.float32(total) if squared else np.float32(np.sqrt(total))


@njit(cache=True, nogil=True, error_model="numpy")
def compact_order(rows: Any) -> Any:
    """An order in which each 64 rows that follow one another lie together: halves along the axis of most spread."""
    n, axes = rows.shape
    order = np.arange(n)
    parts = [(0, n)]
    while parts:
        low, high = parts.pop()
        blocks = -(-(high - low) // WIDTH)
        if blocks < 2:
            continue
        part = order[low:high].copy()
        widest, spread = 0, -1.0
        for axis in range(axes):
            total, square = 0.0, 0.0
            for i in part:
                total += rows[i, axis]
                square += rows[i, axis] * np.float64(rows[i, axis])
            square -= total * total / len(part)
            if square > spread:
                widest, spread = axis, square
        value = np.empty(len(part), np.float32)
        for i in range(len(part)):
            value[i] = rows[part[i], widest]
        order[low:high] = part[np.argsort(value)]
        half = low + blocks // 2 * WIDTH
        parts.append((low, half))
        parts.append((half, high))
    return order


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def squares(x: Any, v: Any, out: Any) -> None:
    """Squared distances of the columns of (r, count) to v; four axes in one sweep spare memory traffic."""
    axes, count = x.shape
    a = out[:count]
    for i in range(count):
        a[i] = np.float32(0)
    axis = 0
    while axis + 4 <= axes:
        # Slices, not x[axis, i]: only these loops become vector instructions.
        r0, r1, r2, r3 = x[axis], x[axis + 1], x[axis + 2], x[axis + 3]
        v0, v1, v2, v3 = v[axis], v[axis + 1], v[axis + 2], v[axis + 3]
        for i in range(count):
            t0, t1, t2, t3 = r0[i] - v0, r1[i] - v1, r2[i] - v2, r3[i] - v3
            a[i] += (t0 * t0 + t1 * t1) + (t2 * t2 + t3 * t3)
        axis += 4
    while axis < axes:
        r0, v0 = x[axis], v[axis]
        for i in range(count):
            t0 = r0[i] - v0
            a[i] += t0 * t0
        axis += 1


@njit(cache=True, nogil=True, error_model="numpy")
def gaps(centre: Any, v: Any, slack: Any, out: Any) -> None:
    """Of each block: no more than the distance from v to its centre."""
    squares(centre, v, out)
    for b in range(len(out)):
        out[b] = np.sqrt(out[b]) * UNDER - slack


@njit(cache=True, nogil=True, error_model="numpy")
def span(reach: Any, away: Any, out: Any) -> None:
    """Of each block: no point of it gains by a candidate further from its centre."""
    for b in range(len(out)):
        most = np.float32(0)
        for i in range(WIDTH):
            most = max(most, np.sqrt(reach[b * WIDTH + i]) + away[b, i])
        out[b] = most


@njit(cache=True, nogil=True, error_model="numpy", fastmath=LOOSE)
def near_points(tiles: Any, v: Any, reach: Any, gap: Any, most: Any, d: Any, out: Any) -> Any:
    """Points that may lie nearer to v than to what is chosen; blocks too far away are passed over whole."""
    found = 0
    for b in range(len(gap)):
        if gap[b] > most[b]:
            continue
        squares(tiles[b], v, d)
        r = reach[b * WIDTH : b * WIDTH + WIDTH]
        ahead = np.float32(0)
        for i in range(WIDTH):
            t = r[i] - d[i]
            ahead = t if t > ahead else ahead
        if ahead > np.float32(0):
            for i in range(WIDTH):
                out[found] = b * WIDTH + i
                found += d[i] < r[i]
    return found


@njit(cache=True, nogil=True, error_model="numpy", fastmath=LOOSE)
def gain_bound(tiles: Any, v: Any, gap: Any, most: Any, best: Any, slack: Any, squared: Any, d: Any) -> Any:
    """At most this, and hardly less, is gained by a candidate at v: from float32 distances."""
    total, zero = 0.0, np.float32(0)
    for b in range(len(gap)):
        if gap[b] > most[b]:
            continue
        squares(tiles[b], v, d)
        h = best[b * WIDTH : b * WIDTH + WIDTH]
        p: Any = zero
        for i in range(WIDTH):
            t = np.sqrt(d[i]) * UNDER - slack
            t = t if t > zero else zero
            if squared:
                t = t * t
            u = h[i] - t
            p += u if u > zero else zero
        total += p
    return total * 1.00001


@njit(cache=True, nogil=True, error_model="numpy")
def reach_of(best: Any, slack: Any, squared: Any) -> Any:
    """The square of how far a point may lie from a candidate and still gain by it."""
    d = (np.sqrt(best) if squared else best) * OVER + slack
    return d * d
