"""Points laid out for large selections, and what a choice of them is worth on all points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.select.selection import Selection, cluster_sizes

CELL = 512
"""Points that share a pivot, about."""
_BLOCK = 65_536  # rows converted at once

Array = np.ndarray[Any, Any]


class Rows32:
    """Points as float32 rows around their mean, in units of a power of two near the largest coordinate.

    Distances are those of the points: rounding is to float32 after the shift, and the unit keeps squares of
    very large and very small coordinates inside float32's range.

    Shapes
    ------
    points (n, d) -> ``values`` (n, d') with d' the next multiple of four, filled up with zeros.
    """

    def __init__(self, points: Tensor, like: Rows32 | None = None) -> None:
        n, d = points.shape
        if like is None:
            if not n or not d:
                raise HoldfastError(f"points to select from must have rows and columns, not shape {(n, d)}")
            self.mean = points.mean(0, dtype=torch.float64)
            largest = max(float((b.double() - self.mean).abs().max()) for b in points.split(_BLOCK))
            self.unit = 2.0 ** math.floor(math.log2(largest)) if largest > 0 else 1.0
        else:
            self.mean, self.unit = like.mean, like.unit
        self.values: Array = np.zeros((n, -(-d // 4) * 4), np.float32)
        for low in range(0, n, _BLOCK):
            block = (points[low : low + _BLOCK].double() - self.mean) / self.unit
            self.values[low : low + _BLOCK, :d] = block.float().numpy()

    def width(self) -> float:
        """Twice the largest distance from the mean, which no distance between two points exceeds."""
        blocks = np.array_split(self.values, max(1, len(self.values) // _BLOCK))
        return 2 * max(float(np.sqrt((b.astype(np.float64) ** 2).sum(1).max())) for b in blocks)


class Cover:
    """How near each of some reference points lies to what is chosen so far, in blocks of neighbours.

    Shapes
    ------
    reference (m, d') float32 rows; ``arrays`` is what the kernels take: tiles (b, d', w), distances to what
    serves them (b, w), reach of a block (b,), first block of a cell (c + 1,), pivots (c, d'), distances to the
    pivot (b, w). Padding counts as served at distance 0, so that it never gains.
    """

    def __init__(self, reference: Array, width: float) -> None:
        from holdfast.select import blocks  # numba takes a while to import, and most runs never come here

        m, d = reference.shape
        pivots = _pivots(reference, max(1, m // CELL))
        cell, offset = nearest_rows(reference, pivots)
        order = np.lexsort((offset, cell))
        counts = np.bincount(cell, minlength=len(pivots))
        starts = np.concatenate([[0], np.cumsum(-(-counts // blocks.WIDTH))])
        skipped = starts[:-1] * blocks.WIDTH - (np.cumsum(counts) - counts)
        place = np.arange(m) + np.repeat(skipped, counts)
        total = int(starts[-1])
        tiles = np.zeros((total, d, blocks.WIDTH), np.float32)
        where, lane = np.divmod(place, blocks.WIDTH)
        for low in range(0, m, _BLOCK):
            part = slice(low, low + _BLOCK)
            tiles[where[part], :, lane[part]] = reference[order[part]]
        best = np.zeros((total, blocks.WIDTH), np.float32)
        best[where, lane] = width
        offsets = np.zeros((total, blocks.WIDTH), np.float32)
        offsets[where, lane] = offset[order]
        reach = (best + offsets).max(1) if width > 0 else np.zeros(total, np.float32)
        self.cell = cell
        self.counts = torch.from_numpy(counts)
        self.arrays = (tiles, best, reach, starts, pivots, offsets)

    @property
    def pivots(self) -> Array:
        """Centres of the cells; (c, d')."""
        return self.arrays[4]

    def near(self, points: int) -> Array:
        """Which cells hold so many points nearest to each cell, by their pivots; (c, c) booleans."""
        pivots = torch.from_numpy(self.pivots)
        away = torch.cdist(pivots, pivots, compute_mode="donot_use_mm_for_euclid_dist")
        order = away.argsort(dim=1, stable=True)
        before = self.counts[order].cumsum(1) - self.counts[order]
        return torch.zeros(away.shape, dtype=torch.bool).scatter_(1, order, before < points).numpy()

    def serve(self, points: Array) -> None:
        """Let some points (s, d') serve what lies nearest to them."""
        from holdfast.select import blocks

        everywhere = np.ones(len(self.pivots), np.bool_)
        for point in points:
            blocks.serve(*self.arrays, point, everywhere)

    def greedy(self, candidates: Array, k: int, alone: bool) -> Array:
        """Candidates picked one after another by largest gain, the first of equals; (k,) positions."""
        from holdfast.select import blocks

        picked: Array = blocks.lazy_steps(*self.arrays, candidates, k, alone)
        return picked


def _pivots(rows: Array, count: int) -> Array:
    """Centres of cells: a few rounds of k-means on some rows.

    Rows as pivots would leave most of the points in a few cells, those of the rows nearest to the middle.
    """
    known = rows[:: max(1, len(rows) // (64 * count))]
    pivots = known[:: max(1, len(known) // count)][:count].copy()
    for _ in range(4 if count > 1 else 0):
        cell, _far = nearest_rows(known, pivots)
        size = np.bincount(cell, minlength=count)
        total = np.zeros(pivots.shape)
        np.add.at(total, cell, known)
        full = size > 0
        pivots[full] = (total[full] / size[full, None]).astype(np.float32)
    return pivots


def nearest_rows(rows: Array, centres: Array) -> tuple[Array, Array]:
    """Position of the nearest centre, the first of equals, and the distance to it."""
    owner, best, _ = replayed(rows, centres)
    return owner, best


def replayed(rows: Array, centres: Array) -> tuple[Array, Array, Array]:
    """Nearest centre, distance to it, and what each centre took off in turn (the first: minus what it leaves)."""
    from holdfast.select import blocks

    owner = np.zeros(len(rows), np.int64)
    best = np.empty(len(rows), np.float32)
    gain = np.empty(len(centres))
    blocks.replay(rows, centres, owner, best, gain)
    return owner, best, gain


def selection(rows: Rows32, index: Array) -> Selection:
    """What a choice of rows is worth on all rows: n·k distances, in one pass.

    ``objective`` is sum_i d(i, nearest chosen) and ``gain`` what each choice took off it, the first counted
    from n times twice the largest distance to the mean, which stands in for the largest distance.
    """
    owner, best, gain = replayed(rows.values, rows.values[index])
    gain[0] += len(rows.values) * rows.width()
    owner[index] = np.arange(len(index))
    assignment = torch.from_numpy(owner)
    return Selection(
        torch.from_numpy(index),
        cluster_sizes(assignment, len(index)),
        torch.from_numpy(gain * rows.unit),
        assignment,
        float(best.sum(dtype=np.float64)) * rows.unit,
    )
