"""Points laid out for screening: principal axes, compact blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

WIDTH = 64
"""Points of a block, which are screened together."""


class Frame(NamedTuple):
    """Points in an order in which blocks of 64 are compact, and what screening needs of them."""

    points: Array
    """(n, d) as given, reordered."""
    rows: Array
    """(n, r) float32 coordinates along the principal axes that hold any spread, from the mean."""
    tiles: Array
    """(blocks, r, 64) the same; the last block is filled up with zeros."""
    name: Array
    """(n,) the original number of each point."""
    centre: Array
    """(r, blocks), the mean of each block."""
    away: Array
    """(blocks, 64) no point lies further from the centre of its block; zero for what fills up."""
    slack: np.float32
    """Distances between rows exceed those between points by no more."""
    guess: int
    """A point near the middle."""


def along_axes(points: Array) -> Array:
    """(n, r) float32 coordinates from the mean, along those principal axes that hold any spread.

    Softmax gradients of C classes come down to C - 1 axes, and so do these at the penultimate features.
    """
    centred = points - points.mean(0, dtype=np.float64)
    if len(points) > points.shape[1] > 1:
        spread, axes = np.linalg.eigh(centred.T @ centred)
        # Below this share of the largest, spread is the rounding of float32 coordinates.
        spanned = spread > 1e-12 * spread[-1]
        if spanned.any():
            centred = centred @ axes[:, spanned][:, ::-1]
    return np.asarray(centred, np.float32)


def frame(points: Array, rows: Array, squared: bool) -> Frame:
    """Lay out (n, d) points of which ``along_axes`` gave the rows."""
    from holdfast.select.screening import compact_order  # numba takes a while to import, and most runs never come here

    n, axes = rows.shape
    name = compact_order(rows)
    rows = np.ascontiguousarray(rows[name])
    starts = np.arange(0, n, WIDTH)
    count = np.diff(np.append(starts, n))
    centre = (np.add.reduceat(rows, starts, dtype=np.float64) / count[:, None]).astype(np.float32)
    slack = np.float32(1e-6 * np.sqrt(np.square(rows).sum(1).max()))
    away = np.zeros((len(starts), WIDTH), np.float32)
    away.flat[:n] = np.sqrt(np.square(rows - np.repeat(centre, count, axis=0)).sum(1)) * np.float32(1.00001) + slack
    filled = np.zeros((len(starts) * WIDTH, axes), np.float32)
    filled[:n] = rows
    return Frame(
        np.ascontiguousarray(points[name]),
        rows,
        np.ascontiguousarray(filled.reshape(-1, WIDTH, axes).transpose(0, 2, 1)),
        name,
        np.ascontiguousarray(centre.T),
        away,
        slack,
        _middle(rows, squared),
    )


def _middle(rows: Array, squared: bool) -> int:
    """The point of least summed distance to a sample: any point would do, a good one spares work."""
    sample = rows[np.random.default_rng(0).permutation(len(rows))[:256]]
    square = np.square(rows).sum(1)[:, None] + np.square(sample).sum(1) - 2 * rows @ sample.T
    far = square if squared else np.sqrt(np.maximum(square, 0))
    return int(far.sum(1).argmin())


def distance_matrix(points: Array, squared: bool) -> Array:
    """(n, n) float32 distances, symmetric, from inner products in float64; of near points from differences."""
    n = len(points)
    centred = points - points.mean(0, dtype=np.float64)
    square = np.square(centred).sum(1)
    out = np.empty((n, n), np.float32)
    for low in range(0, n, 512):
        block = centred[low : low + 512]
        scale = square[low : low + 512, None] + square[low:]
        d = scale - 2 * block @ centred[low:].T
        i, j = np.nonzero(d < 1e-7 * scale)
        for part in range(0, len(i), 100_000):
            a, b = i[part : part + 100_000], j[part : part + 100_000]
            d[a, b] = np.square(centred[low + a] - centred[low + b]).sum(1)
        out[low : low + 512, low:] = d if squared else np.sqrt(d)
        out[low:, low : low + 512] = out[low : low + 512, low:].T
    return out
