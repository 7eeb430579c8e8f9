"""Near rows whose label is trusted, found among tens of thousands in a fraction of a millisecond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

CANDIDATES = 50_000
"""Rows among which neighbours are sought."""
LOOKED_AT, MOST_LOOKED_AT = 128, 512
"""Rows, or rows of the class that is sought, that are compared with each other one by one: so many at least, if there
are, and at most, where a cell is crowded."""
PART = 8192


class Wanted(NamedTuple):
    """Near rows that are asked for."""

    most: int
    label: int | None = None
    """Their class as a number; None: of any."""


class Nearby:
    """An index of rows by their features.

    Candidates lie in cells, each around one of some random rows; those of the nearest cells are compared with the row
    that is asked about. Inside of a cell they lie by class, so that the nearest of a class are found as fast.

    Parameters
    ----------
    features: (N, d) of about unit length, in few directions.
    candidates: (M,) rows that may be found.
    label: (N,) class of each row as a number from 0; None where there is none.
    """

    def __init__(self, features: Tensor, candidates: Array, label: Array | None, seed: int = 0) -> None:
        source = np.random.default_rng(seed)
        chosen = np.sort(source.permutation(candidates)[:CANDIDATES])
        self._features: Array = features.numpy()
        cells = max(1, round(len(chosen) ** 0.5))
        points = self._features[chosen]
        self._centres = self._features[source.permutation(chosen)[:cells]]
        cell = np.zeros(len(chosen), dtype=np.int64)
        for low in range(0, len(chosen), PART):
            cell[low : low + PART] = (points[low : low + PART] @ self._centres.T).argmax(1)
        named = np.zeros(len(chosen), dtype=np.int64) if label is None else label[chosen].astype(np.int64)
        self._classes = int(named.max(initial=0)) + 1
        box = cell * self._classes + named
        by_box = np.argsort(box, kind="stable")
        self.rows: Array = chosen[by_box]
        self._points: Array = points[by_box]
        # Where the candidates of each cell and class begin.
        self._start: Array = np.searchsorted(box[by_box], np.arange(cells * self._classes + 1))

    def nearest(self, row: int, wanted: Sequence[Wanted]) -> list[list[int]]:
        """For each wish candidates near a row and other than it, the nearest first.

        All wishes are compared with the row at once: most of what one takes is calls, whatever they work on.
        """
        if not len(self.rows):
            return [[] for _ in wanted]
        point = self._features[row]
        cells = np.argsort(-(self._centres @ point))
        spans = [self._spans(cells, each.label) for each in wanted]
        low, size = (np.concatenate(part) for part in zip(*spans, strict=True))
        ends = np.cumsum(size)
        # The places low, low + 1, ..., low + size - 1 of each box, one after the other.
        places = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(low - ends + size, size)
        rows = self.rows[places]
        likeness = self._points[places] @ point
        likeness[rows == row] = -np.inf
        found, begin = [], 0
        for each, (_, sizes) in zip(wanted, spans, strict=True):
            end = begin + int(sizes.sum())
            own = likeness[begin:end]
            best = np.argsort(-own, kind="stable")[: each.most]
            found.append(rows[begin:end][best[own[best] > -np.inf]].tolist())
            begin = end
        return found

    def _spans(self, cells: Array, label: int | None) -> tuple[Array, Array]:
        """Where the candidates of a class begin in the nearest cells that have enough, and how many there are."""
        if label is not None and not 0 <= label < self._classes:
            return cells[:0], cells[:0]
        box = cells * self._classes
        first, last = (0, self._classes) if label is None else (label, label + 1)
        low = self._start[box + first]
        size = self._start[box + last] - low
        total = np.cumsum(size)
        enough = int(np.searchsorted(total, LOOKED_AT)) + 1
        return low[:enough], size[:enough] - np.maximum(total[:enough] - MOST_LOOKED_AT, 0)
